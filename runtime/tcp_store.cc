#include "runtime/tcp_store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "core/error.h"
#include "runtime/tcp_frame.h"

namespace trireme::runtime {
namespace {

bool send_all(int socket, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

void set_option(int socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket, level, option, &on, sizeof(on));
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// One thread that polls the listening socket and every client.
class TcpStoreServer::Loop {
 public:
  explicit Loop(std::uint16_t port) {
    listener_ = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool six = listener_ >= 0;
    if (!six) {
      listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    set_option(listener_, SOL_SOCKET, SO_REUSEADDR);
    if (!bind_to(six, port) || ::listen(listener_, 1024) != 0) {
      const std::string why = std::strerror(errno);
      ::close(listener_);
      throw Error("MASTER_PORT",
                  fmt::format("cannot listen on port {}: {}; name a free one", port, why));
    }
    if (::pipe2(wake_.data(), O_CLOEXEC) != 0) {
      ::close(listener_);
      throw Error("MASTER_PORT", "cannot make a pipe for the store");
    }
    thread_ = std::thread([this] { run(); });
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;
  ~Loop() {
    const char stop = 's';
    if (::write(wake_[1], &stop, 1) == 1) {
      thread_.join();
    }
    for (const auto& [socket, client] : clients_) {
      ::close(socket);
    }
    ::close(listener_);
    ::close(wake_[0]);
    ::close(wake_[1]);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  struct Client {
    std::string inbox;
    std::string waits_for;  // key of a get that is not answered yet
    std::int64_t rank = -1;
    bool goodbye = false;
  };

  bool bind_to(bool six, std::uint16_t port) {
    sockaddr_storage storage{};
    socklen_t length = 0;
    if (six) {
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      address.sin6_port = htons(port);
      address.sin6_addr = in6addr_any;
      length = sizeof(address);
      std::memcpy(&storage, &address, sizeof(address));
    } else {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      length = sizeof(address);
      std::memcpy(&storage, &address, sizeof(address));
    }
    auto* generic = static_cast<sockaddr*>(static_cast<void*>(&storage));
    if (::bind(listener_, generic, length) != 0 ||
        ::getsockname(listener_, generic, &length) != 0) {
      return false;
    }
    sockaddr_in6 bound{};
    std::memcpy(&bound, &storage,
                sizeof(bound));  // the port lies at the same place in both families
    port_ = ntohs(bound.sin6_port);
    return true;
  }

  void run() {
    while (true) {
      std::vector<pollfd> polled = {{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
      for (const auto& [socket, client] : clients_) {
        polled.push_back({socket, POLLIN, 0});
      }
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
        return;
      }
      if (polled[1].revents != 0) {
        return;
      }
      if ((polled[0].revents & POLLIN) != 0) {
        const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (socket >= 0) {
          set_option(socket, IPPROTO_TCP, TCP_NODELAY);
          clients_[socket] = {};
        }
      }
      for (std::size_t i = 2; i < polled.size(); ++i) {
        if (polled[i].revents != 0) {
          serve(polled[i].fd);
        }
      }
    }
  }

  void serve(int socket) {
    Client& client = clients_[socket];
    std::array<char, 65536> chunk{};
    const ssize_t n = ::recv(socket, chunk.data(), chunk.size(), 0);
    bool open = n > 0;
    if (open) {
      client.inbox.append(chunk.data(), static_cast<std::size_t>(n));
      try {
        Frame frame;
        while (decode(client.inbox, frame)) {
          answer(socket, client, frame);
        }
      } catch (const Error&) {
        open = false;
      }
    }
    if (!open) {
      if (client.rank >= 0 && !client.goodbye) {
        fail(fmt::format("rank {} has gone", client.rank));
      }
      ::close(socket);
      clients_.erase(socket);
    }
  }

  void answer(int socket, Client& client, const Frame& frame) {
    switch (frame.kind) {
      case 'H':
        hello(socket, client, frame);
        return;
      case 'S':
        values_[frame.key] = frame.value;
        for (auto& [other, waiting] : clients_) {
          if (waiting.waits_for == frame.key) {
            waiting.waits_for.clear();
            send_all(other, encode({'V', "", frame.value}));
          }
        }
        return;
      case 'G':
        if (const auto found = values_.find(frame.key); found != values_.end()) {
          send_all(socket, encode({'V', "", found->second}));
        } else if (!failure_.empty()) {
          send_all(socket, encode({'E', failure_, ""}));
        } else {
          client.waits_for = frame.key;
        }
        return;
      case 'Q':
        send_all(socket, encode({'V', "", failure_}));
        return;
      case 'F':
        fail(frame.key);
        return;
      case 'B':
        client.goodbye = true;
        return;
      default:
        throw Error("MASTER_PORT", "unknown request");
    }
  }

  void hello(int socket, Client& client, const Frame& frame) {
    std::string problem;
    if (!ranks_.empty() && ranks_ != frame.value) {
      problem = fmt::format("rank {} was started with WORLD_SIZE {}, another rank with {}",
                            frame.key, frame.value, ranks_);
    }
    for (const auto& [other, known] : clients_) {
      if (known.rank >= 0 && std::to_string(known.rank) == frame.key) {
        problem = fmt::format("two processes say they are rank {}", frame.key);
      }
    }
    if (!problem.empty()) {
      send_all(socket, encode({'E', problem, ""}));
      fail(problem);
      return;
    }
    ranks_ = frame.value;
    client.rank = std::stoll(frame.key);
    send_all(socket, encode({'V', "", "trireme"}));
  }

  void fail(const std::string& reason) {
    if (failure_.empty()) {
      failure_ = reason;
    }
    for (auto& [socket, client] : clients_) {
      if (!client.waits_for.empty()) {
        client.waits_for.clear();
        send_all(socket, encode({'E', failure_, ""}));
      }
    }
  }

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::array<int, 2> wake_{};
  std::map<int, Client> clients_;
  std::map<std::string, std::string> values_;
  std::string ranks_;
  std::string failure_;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(std::uint16_t port) : loop_(std::make_unique<Loop>(port)) {}
TcpStoreServer::~TcpStoreServer() = default;
std::uint16_t TcpStoreServer::port() const {
  return loop_->port();
}

namespace {

int connect_once(const StoreAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) !=
      0) {
    return -1;
  }
  int socket = -1;
  for (const addrinfo* candidate = found; candidate != nullptr && socket < 0;
       candidate = candidate->ai_next) {
    socket = ::socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket >= 0 && ::connect(socket, candidate->ai_addr, candidate->ai_addrlen) != 0) {
      ::close(socket);
      socket = -1;
    }
  }
  ::freeaddrinfo(found);
  if (socket >= 0) {
    set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  }
  return socket;
}

}  // namespace

TcpStoreClient::TcpStoreClient(const StoreAddress& address, Rank rank, std::int64_t ranks,
                               Seconds timeout)
    : rank_(rank), exceptions_(std::uncaught_exceptions()) {
  const double deadline = now_seconds() + timeout.value;
  while ((socket_ = connect_once(address)) < 0) {
    if (now_seconds() > deadline) {
      throw Error("MASTER_ADDR",
                  fmt::format("rank {}: nobody answers at {}:{} within {:.3g} s", index_of(rank),
                              address.host, address.port, timeout.value));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  try {
    request('H', std::to_string(index_of(rank)), std::to_string(ranks), timeout);
  } catch (const Error&) {
    ::close(socket_);
    throw;
  }
}

TcpStoreClient::~TcpStoreClient() {
  if (std::uncaught_exceptions() == exceptions_) {
    send_all(socket_, encode({'B', "", ""}));
  }
  ::close(socket_);
}

void TcpStoreClient::set(const std::string& key, const std::string& value) {
  if (!send_all(socket_, encode({'S', key, value}))) {
    throw Error(fmt::format("rank {}", index_of(rank_)), "lost its connection to rank 0");
  }
}

std::string TcpStoreClient::get(const std::string& key, Seconds timeout) {
  return request('G', key, "", timeout);
}
std::string TcpStoreClient::failure() {
  return request('Q', "", "", Seconds(10));
}
void TcpStoreClient::fail(const std::string& reason) {
  send_all(socket_, encode({'F', reason, ""}));
}

std::string TcpStoreClient::request(char kind, const std::string& key, const std::string& value,
                                    Seconds timeout) {
  const std::string self = fmt::format("rank {}", index_of(rank_));
  if (!send_all(socket_, encode({kind, key, value}))) {
    throw Error(self, "lost its connection to rank 0");
  }
  const double deadline = now_seconds() + timeout.value;
  std::string inbox;
  std::array<char, 65536> chunk{};
  Frame frame;
  while (!decode(inbox, frame)) {
    const double left = deadline - now_seconds();
    pollfd polled{socket_, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&polled, 1, static_cast<int>(left * 1e3) + 1) : 0;
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      throw Error(self, fmt::format("waited {:.3g} s for {}", timeout.value,
                                    kind == 'H' ? "rank 0's greeting" : key));
    }
    const ssize_t n = ::recv(socket_, chunk.data(), chunk.size(), 0);
    if (n <= 0) {
      throw Error(self, "lost its connection to rank 0");
    }
    inbox.append(chunk.data(), static_cast<std::size_t>(n));
  }
  if (frame.kind == 'E') {
    throw Error(self, "stopped because " + frame.key);
  }
  return frame.value;
}

}  // namespace trireme::runtime
