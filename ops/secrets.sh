#!/bin/sh
# Makes what docker-compose.yml asks for and nobody should share: passwords of ClickHouse and Grafana
# in .env, tokens of the web API in secrets/. What is there already stays as it is.
set -eu
cd "$(dirname "$0")/.."
umask 077
tally=${TALLY:-.venv/bin/tally}

touch .env
for name in CLICKHOUSE_PASSWORD GRAFANA_PASSWORD; do
    grep -q "^$name=" .env || echo "$name=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')" >> .env
done

mkdir -p secrets
if [ ! -e secrets/tokens.toml ]; then
    "$tally" token add me --read '*' --write '*' --admin '*' --file secrets/tokens.toml --json > secrets/my_token.json
    "$tally" token add prometheus --read '*' --file secrets/tokens.toml --json |
        sed 's/.*"token": *"\([^"]*\)".*/\1/' | tr -d '\n' > secrets/prometheus_token
    # Containers read them as users of their own.
    chmod 644 secrets/tokens.toml secrets/prometheus_token
fi
echo "passwords are in .env, your token for the web API is in secrets/my_token.json"
