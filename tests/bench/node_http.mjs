// The same answer from Node's own server. Prints its port, ends when stdin closes. With TOKEN in its environment a request must bear it; BODY is
// another answer.
import { timingSafeEqual } from "node:crypto";
import http from "node:http";

const body = process.env.BODY ?? '{"status":"ok"}';
const token = process.env.TOKEN ? Buffer.from(`Bearer ${process.env.TOKEN}`) : null;

function admits(request) {
  const given = Buffer.from(request.headers.authorization ?? "");
  return given.length === token.length && timingSafeEqual(given, token) && request.headers.origin === undefined;
}

const server = http.createServer((request, response) => {
  if (token && !admits(request)) {
    response.writeHead(401);
    response.end();
    return;
  }
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
  response.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
