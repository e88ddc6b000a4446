"""The middle floor: decides the order. Imports activities, never api."""
