#!/usr/bin/env node
// Measures the client library; `gannet-bench --help` lists the options.

import { main } from "../dist/bench.js";

process.exitCode = await main(process.argv.slice(2));
