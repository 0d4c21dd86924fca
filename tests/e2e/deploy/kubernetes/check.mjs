// Reads manifests as a JSON list from standard input; prints what the published schemas and types
// of Kubernetes find wrong with them, one line for each. Of a JobSet, for which npm has none, its
// Jobs are checked so, and its own fields by a list of those that we use.
import { readFileSync, writeFileSync } from "node:fs";
import ts from "typescript";

const MODULES = {
  ConfigMap: "kubernetes-models/v1/ConfigMap",
  Secret: "kubernetes-models/v1/Secret",
  Service: "kubernetes-models/v1/Service",
  Job: "kubernetes-models/batch/v1/Job",
  PodMonitor: "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor",
};

// By its definition in kubernetes-sigs/jobset, config/components/crd, v1alpha2, as read in 2026.
const JOB_SET = {
  successPolicy: { operator: /^(All|Any)$/, targetReplicatedJobs: [/^[a-z]/] },
  failurePolicy: { maxRestarts: /^\d+$/ },
  replicatedJobs: [{ name: /^[a-z]/, replicas: /^\d+$/, template: null }],
};

// What does not have the shape of `known`, whose null is anything.
function complaints(value, known, path) {
  if (known === null) return [];
  if (known instanceof RegExp) {
    return known.test(String(value)) && typeof value !== "object" ? [] : [`${path}: ${value}`];
  }
  if (Array.isArray(known) !== Array.isArray(value) || typeof value !== "object") {
    return [`${path}: ${JSON.stringify(value)}`];
  }
  if (Array.isArray(known)) {
    return value.flatMap((one, i) => complaints(one, known[0], `${path}[${i}]`));
  }
  return Object.entries(value).flatMap(([name, one]) => name in known
    ? complaints(one, known[name], `${path}.${name}`) : [`${path}.${name} is no field`]);
}

function checkJobSets(documents) {
  for (const one of documents) {
    if (one.kind !== "JobSet") continue;
    if (one.apiVersion !== "jobset.x-k8s.io/v1alpha2") console.log(`JobSet: ${one.apiVersion}`);
    for (const found of complaints(one.spec, JOB_SET, "spec")) {
      console.log(`JobSet ${one.metadata.name}: ${found}`);
    }
  }
}

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

const documents = JSON.parse(readFileSync(0, "utf8"));
checkJobSets(documents);
const all = objects(documents);
await checkValues(all);
checkNames(all);
