// @NAME@: a provider of abx. A sandbox is a folder on this machine; its processes run here, as you. NO ISOLATION: put calls to
// your own backend in the place of boxes.mjs, processes.mjs and files.mjs. epp.mjs may stay as it is.

import * as boxes from "./boxes.mjs";
import { serve } from "./epp.mjs";
import * as files from "./files.mjs";
import * as processes from "./processes.mjs";

// What this provider has. The manifest lists the same; the host uses what both name.
const FEATURES = {
  sandbox: "native", connect: "native", list: "native", timeout: "native", process: "native", "process.stdin": "native",
  "process.replay": "native", filesystem: "native", "process.detach": "unsupported",
};

if (process.argv[2] === "--keep") {
  processes.keep(JSON.parse(process.argv[3])); // see processes.mjs
} else {
  await serve(FEATURES, { ...boxes.methods, ...processes.methods, ...files.methods });
  processes.endAll();
  process.exit(0);
}
