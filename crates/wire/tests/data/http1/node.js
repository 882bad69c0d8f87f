// Each line of standard input is what a client sends, in hexadecimal digits; each line of the output is what node's HTTP server answers.
const http = require('http');
const { Duplex } = require('stream');

const server = http.createServer({ keepAliveTimeout: 0 }, (request, response) => {
  let length = 0;
  request.on('data', (data) => { length += data.length; });
  request.on('end', () => { response.writeHead(200, { 'X-Length': length }); response.end(); });
});

function answers(bytes) {
  return new Promise((resolve) => {
    let output = '';
    const socket = new Duplex({
      read() {},
      write(data, _encoding, done) { output += data.toString('latin1'); done(); },
    });
    server.emit('connection', socket);
    socket.push(bytes);
    setTimeout(() => { socket.destroy(); resolve(output); }, 30);
  });
}

async function main() {
  console.log(`node ${process.versions.node} with llhttp ${process.versions.llhttp}`);
  for (const line of require('fs').readFileSync(0, 'latin1').split('\n').slice(0, -1)) {
    console.log(JSON.stringify(await answers(Buffer.from(line, 'hex'))));
  }
  process.exit(0);
}

main();
