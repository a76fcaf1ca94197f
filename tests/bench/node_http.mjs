// The same answer from Node's own server. Prints its port, ends when stdin closes.
import http from "node:http";

const body = '{"status":"ok"}';
const server = http.createServer((request, response) => {
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
  response.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
