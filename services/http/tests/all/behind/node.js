// The same as asgi.py, on the server of Node.

const fs = require('node:fs')
const http = require('node:http')

const server = http.createServer({ maxHeaderSize: 1 << 17 }, (request, response) => {
  const pieces = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    const fields = []
    for (let at = 0; at < request.rawHeaders.length; at += 2) fields.push([request.rawHeaders[at], request.rawHeaders[at + 1]])
    const content = Buffer.concat(pieces).toString('latin1')
    fs.appendFileSync(process.env.SEEN, JSON.stringify({ method: request.method, target: request.url, fields, content }) + '\n')
    response.end('ok')
  })
})
server.listen(process.argv[2])
