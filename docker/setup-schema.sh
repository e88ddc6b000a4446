#!/bin/sh
# Creates Temporal's two databases and brings their schemas up to date. Runs at every start: each
# step leaves alone what is already there, and after an upgrade the last one migrates.
# The password comes from SQL_PASSWORD, which temporal-sql-tool reads itself.
set -eu

schemas=/etc/temporal/schema/postgresql/v12

sql_tool() {
    database=$1
    shift
    temporal-sql-tool --plugin postgres12 --ep "$SQL_HOST" -p 5432 -u "$SQL_USER" \
        --db "$database" "$@"
}

set_up() {
    sql_tool "$1" create-database
    # Version 0.0 only creates the tables that record versions; a newer version stays as it is.
    sql_tool "$1" setup-schema -v 0.0
    sql_tool "$1" update-schema -d "$schemas/$2/versioned"
}

set_up temporal temporal
set_up temporal_visibility visibility
