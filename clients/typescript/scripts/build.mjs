// Compiles the package into dist/.

import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
process.exit(spawnSync(process.execPath, [compiler, "-p", PACKAGE], { stdio: "inherit" }).status ?? 1);
