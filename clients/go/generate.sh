#!/usr/bin/env bash
# Generates the files of the module that have another source. Run it in any folder:  clients/go/generate.sh
#
#   gannetv1/*.pb.go   from proto/gannet/v1/*.proto
#   presets_gen.go     from clients/presets.toml
#
# PYTHON names a Python with grpcio-tools, which contains protoc (default: python3). The plugins of protoc are installed
# into a temporary folder.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../.."
made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT

cd "$here"
schemas=()
for schema in "$root"/proto/gannet/v1/*.proto; do schemas+=("gannet/v1/$(basename "$schema")"); done
GOBIN="$made/bin" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
GOBIN="$made/bin" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PATH="$made/bin:$PATH" "${PYTHON:-python3}" -m grpc_tools.protoc "-I$root/proto" \
    "--go_out=$made" "--go-grpc_out=$made" "${schemas[@]}"
rm -rf gannetv1
mkdir gannetv1
mv "$made"/gannet.dev/client/gannetv1/*.go gannetv1/
go run ./internal/presetgen "$root/clients/presets.toml" presets_gen.go
gofmt -l .
