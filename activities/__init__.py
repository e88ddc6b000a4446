"""The lowest floor: does the work. Imports neither workflows nor api."""
