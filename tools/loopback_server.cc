#include "tools/loopback_server.h"

#include <fmt/format.h>

#include <utility>  // before Boost.Asio 1.74, which uses std::exchange without it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include "core/error.h"

namespace trireme::tools {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

struct Server {
  ServerLimits limits;
  HttpHandler handler;
  asio::steady_timer pause;
  std::uint16_t port = 0;
  std::shared_ptr<std::size_t> open =
      std::make_shared<std::size_t>(0);  // connections; outlives them
};

bool is_own_name(const Server& server, beast::string_view host) {
  return beast::iequals(host, fmt::format("127.0.0.1:{}", server.port)) ||
         beast::iequals(host, fmt::format("localhost:{}", server.port));
}

// Why a request is not answered; empty: it is.
std::string refusal(const Server& server, const Request& request) {
  if (request.count(http::field::host) != 1 || !is_own_name(server, request[http::field::host])) {
    return "this server answers as 127.0.0.1 and localhost only";
  }
  const beast::string_view origin = request[http::field::origin];
  constexpr beast::string_view kScheme = "http://";
  if (request.count(http::field::origin) > 0 &&
      (!origin.starts_with(kScheme) || !is_own_name(server, origin.substr(kScheme.size())))) {
    return "another origin's page may not ask";
  }
  const beast::string_view site = request["Sec-Fetch-Site"];
  if (!site.empty() && site != "same-origin" && site != "none") {
    return "another site's page may not ask";
  }
  return "";
}

HttpReply text_reply(int status, const std::string& text) {
  return {status, "text/plain; charset=utf-8", text + "\n"};
}

HttpReply reply_to(const Server& server, const Request& request) {
  const std::string refused = refusal(server, request);
  if (!refused.empty()) {
    return text_reply(403, refused);
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return text_reply(405, "only GET and HEAD are answered");
  }
  const std::string target(request.target());
  const std::size_t mark = target.find('?');
  try {
    return server.handler(target.substr(0, mark),
                          mark == std::string::npos ? "" : target.substr(mark + 1));
  } catch (const Error& error) {
    return text_reply(400, error.what());
  } catch (const std::exception& error) {
    return text_reply(500, error.what());
  }
}

Response response_of(const HttpReply& reply, const Request& request, bool keep_alive) {
  Response response(static_cast<http::status>(reply.status), 11);
  response.set(http::field::content_type, reply.type);
  response.set(http::field::cache_control, "no-store");
  response.set("Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
               "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; "
               "form-action 'none'");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  response.set("Referrer-Policy", "no-referrer");
  response.keep_alive(keep_alive);
  if (request.method() == http::verb::head) {
    response.content_length(reply.body.size());
  } else {
    response.body() = reply.body;
    response.prepare_payload();
  }
  return response;
}

// One connection: reads a request, replies, and again. It lives as long as one of its handlers.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket, Server& server)
      : stream_(std::move(socket)), server_(server), open_(server.open) {
    ++*open_;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;
  ~Connection() { --*open_; }

  void read() {
    parser_.emplace();
    parser_->header_limit(server_.limits.header_bytes);
    parser_->body_limit(server_.limits.body_bytes);
    // One deadline for all of it: a client that sends byte by byte does not move it.
    stream_.expires_after(std::chrono::seconds(server_.limits.seconds));
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       self->on_read(error);
                     });
  }

 private:
  void on_read(beast::error_code error) {
    if (error == http::error::body_limit) {
      return write(text_reply(413, "the body is too long"), false);
    }
    if (error == http::error::header_limit) {
      return write(text_reply(431, "the header is too long"), false);
    }
    if (error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      return write(text_reply(400, "this is no HTTP request"), false);
    }
    if (error) {
      return close();
    }
    write(reply_to(server_, parser_->get()), parser_->get().keep_alive());
  }

  void write(const HttpReply& reply, bool keep_alive) {
    response_ = response_of(reply, parser_->get(), keep_alive);
    stream_.expires_after(std::chrono::seconds(server_.limits.seconds));
    http::async_write(
        stream_, response_,
        [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
          if (error || !keep_alive) {
            return self->close();
          }
          self->read();
        });
  }

  void close() {
    beast::error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

  beast::tcp_stream stream_;
  Server& server_;
  std::shared_ptr<std::size_t> open_;
  beast::flat_buffer buffer_{16 * 1024};
  std::optional<http::request_parser<http::string_body>> parser_;
  Response response_;
};

void accept_next(asio::ip::tcp::acceptor& acceptor, Server& server) {
  acceptor.async_accept([&](beast::error_code error, asio::ip::tcp::socket socket) {
    if (!error && *server.open < server.limits.connections) {
      std::make_shared<Connection>(std::move(socket), server)->read();
    }
    if (!error) {
      return accept_next(acceptor, server);
    }
    // No descriptor is left, say: asking again at once would only burn the processor.
    server.pause.expires_after(std::chrono::milliseconds(100));
    server.pause.async_wait([&](beast::error_code stopped) {
      if (!stopped) {
        accept_next(acceptor, server);
      }
    });
  });
}

}  // namespace

void serve_loopback(std::uint16_t port, const ServerLimits& limits, const HttpHandler& handler,
                    const std::function<void(std::uint16_t port)>& ready) {
  asio::io_context io(1);
  Server server{limits, handler, asio::steady_timer(io)};
  asio::ip::tcp::acceptor acceptor(io);
  const asio::ip::tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
  try {
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen(asio::socket_base::max_listen_connections);
    server.port = acceptor.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    throw Error("--port", fmt::format("{} of 127.0.0.1 cannot be served on: {}", port,
                                      error.code().message()));
  }
  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](beast::error_code, int) { io.stop(); });
  accept_next(acceptor, server);
  ready(server.port);
  io.run();
}

}  // namespace trireme::tools
