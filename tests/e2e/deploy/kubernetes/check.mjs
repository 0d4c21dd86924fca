// Reads manifests as a JSON list from standard input; prints what the published schemas and types
// of Kubernetes find wrong with them, one line for each. Of a JobSet, for which none is published,
// its Jobs are checked.
import { readFileSync, writeFileSync } from "node:fs";
import ts from "typescript";

const MODULES = {
  ConfigMap: "kubernetes-models/v1/ConfigMap",
  Secret: "kubernetes-models/v1/Secret",
  Service: "kubernetes-models/v1/Service",
  Job: "kubernetes-models/batch/v1/Job",
  PodMonitor: "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor",
};

function objects(documents) {
  return documents.flatMap((one) => {
    if (one.kind !== "JobSet") return [one];
    return one.spec.replicatedJobs.map((job) => ({
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: `${one.metadata.name}-${job.name}` },
      spec: job.template.spec,
    }));
  });
}

// Values: required fields, kinds, ranges, patterns.
async function checkValues(all) {
  for (const one of all) {
    const { [one.kind]: Model } = await import(MODULES[one.kind]);
    try {
      new Model(one).validate();
    } catch (error) {
      console.log(`${one.kind} ${one.metadata.name}: ${error.message}`);
    }
  }
}

// Names of fields: the types know no others, and schemas let them pass.
function checkNames(all) {
  const lines = all.map((one, i) =>
    `import type { I${one.kind} as T${i} } from "${MODULES[one.kind]}";\n` +
    `export const o${i}: T${i} = ${JSON.stringify(one)};\n`);
  writeFileSync("objects.ts", lines.join(""));
  const program = ts.createProgram(["objects.ts"], {
    noEmit: true, strict: true, skipLibCheck: true, module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext, target: ts.ScriptTarget.ES2022, types: [],
  });
  for (const found of ts.getPreEmitDiagnostics(program)) {
    const line = found.file && ts.getLineAndCharacterOfPosition(found.file, found.start).line;
    const one = line === undefined ? undefined : all[Math.floor(line / 2)];
    console.log(`${one ? `${one.kind} ${one.metadata.name}` : "types"}: ` +
      ts.flattenDiagnosticMessageText(found.messageText, " "));
  }
}

const all = objects(JSON.parse(readFileSync(0, "utf8")));
await checkValues(all);
checkNames(all);
