// Answers a browser on this machine, and nobody else: HTTP on 127.0.0.1. The only file that knows
// Boost.Beast is its .cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace trireme::tools {

struct HttpReply {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
};

struct ServerLimits {
  std::size_t connections = 32;  // at once; more are closed
  std::uint32_t header_bytes = 8192;
  std::uint64_t body_bytes = 1024;
  int seconds = 5;  // for a whole request to come, and for a reply to go
};

// What is asked: "/answer" and "seq=4096&gpus=64".
using HttpHandler = std::function<HttpReply(const std::string& path, const std::string& query)>;

// Serves until SIGINT or SIGTERM. Port 0: any free one; `ready` is told which. Refused are:
// requests whose Host is another name (DNS rebinding), whose Origin or Sec-Fetch-Site is another
// site's, methods other than GET and HEAD, and what is beyond the limits. An Error of the handler
// is a reply of 400 with its text. Throws Error when the port is taken.
void serve_loopback(std::uint16_t port, const ServerLimits& limits, const HttpHandler& handler,
                    const std::function<void(std::uint16_t port)>& ready);

}  // namespace trireme::tools
