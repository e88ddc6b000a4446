#!/bin/sh
# Waits for Temporal and makes sure that the namespace exists, with the retention asked for. Runs
# at every start. Search attributes are not its business: the API and the workers register them.
set -eu

# An address instead of a name: gRPC in Go asks the resolver for more than the address, and where
# the host's DNS drops such questions the CLI gives up before it has connected.
host=${TEMPORAL_ADDRESS%:*}
port=${TEMPORAL_ADDRESS##*:}
ip=$(getent ahosts "$host" | awk '$1 ~ /[.]/ { print $1; exit }')
export TEMPORAL_ADDRESS="${ip:-$host}:$port"

# Repeats a command until it succeeds; after two minutes once more, for all to see.
wait_for() {
    tries=0
    until "$@" > /dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -ge 60 ]; then
            "$@"
            return
        fi
        sleep 2
    done
}

wait_for temporal operator cluster health

if temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" > /dev/null 2>&1; then
    temporal operator namespace update --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
else
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi

# Temporal's frontend caches its list of namespaces: for some seconds it would still tell a worker
# that this one doesn't exist.
wait_for temporal workflow list --namespace "$TEMPORAL_NAMESPACE" --limit 1
echo "Namespace $TEMPORAL_NAMESPACE is ready."
