#!/usr/bin/env bash
exec env RUSTC_BOOTSTRAP=1 rustdoc "$@"
