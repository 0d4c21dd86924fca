// Runs a model: node run.mjs MODEL.onnx INPUTS.safetensors OUTPUTS.safetensors
// Every input is taken from the file under its name; every output is written under its own.
import fs from 'node:fs'
import ort from 'onnxruntime-node'

const [model, from, to] = process.argv.slice(2)

function read(path) {
  const bytes = fs.readFileSync(path)
  const length = Number(bytes.readBigUInt64LE(0))
  const head = JSON.parse(bytes.subarray(8, 8 + length).toString())
  const tensors = {}
  for (const [name, entry] of Object.entries(head)) {
    if (name === '__metadata__') continue
    const [begin, end] = entry.data_offsets
    const data = bytes.buffer.slice(bytes.byteOffset + 8 + length + begin,
                                    bytes.byteOffset + 8 + length + end)
    tensors[name] = new ort.Tensor('float32', new Float32Array(data), entry.shape)
  }
  return tensors
}

function write(path, tensors) {
  const head = {}
  const parts = []
  let offset = 0
  for (const [name, tensor] of Object.entries(tensors)) {
    if (tensor.type !== 'float32') throw new Error(`output ${name} is of ${tensor.type}`)
    const data = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength)
    head[name] = { dtype: 'F32', shape: tensor.dims,
                   data_offsets: [offset, offset + data.length] }
    offset += data.length
    parts.push(data)
  }
  const text = Buffer.from(JSON.stringify(head))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  fs.writeFileSync(path, Buffer.concat([length, text, ...parts]))
}

const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1 })
const given = read(from)
const feeds = {}
for (const name of session.inputNames) {
  if (!(name in given)) throw new Error(`no value for the input ${name}`)
  feeds[name] = given[name]
}
write(to, await session.run(feeds))
