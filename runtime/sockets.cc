#include "runtime/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/error.h"
#include "runtime/clock.h"

namespace trireme::runtime {
namespace {

constexpr int kWaiting = 1024;  // connections that are not accepted yet

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const StoreAddress& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  return {code == 0 ? found : nullptr, ::freeaddrinfo};
}

void turn_on(int socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket, level, option, &on, sizeof(on));
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof(four));
    return (ntohl(four.sin_addr.s_addr) >> 24U) == 127;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, address, sizeof(six));
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

std::uint16_t port_of(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (::getsockname(socket, static_cast<sockaddr*>(static_cast<void*>(&bound)), &length) != 0) {
    return 0;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &bound, sizeof(six));  // the port lies at the same place in both families
  return ntohs(six.sin6_port);
}

// Connects a socket that does not block.
bool connected(int socket, const addrinfo& to, double deadline) {
  if (::connect(socket, to.ai_addr, to.ai_addrlen) == 0) {
    return true;
  }
  if (errno != EINPROGRESS) {
    return false;
  }
  pollfd waiting{.fd = socket, .events = POLLOUT, .revents = 0};
  int ready = -1;
  do {
    const double left = std::clamp(deadline - now_seconds(), 0.0, 1e6);
    ready = ::poll(&waiting, 1, static_cast<int>(left * 1e3));
  } while (ready < 0 && errno == EINTR);
  int error = 0;
  socklen_t length = sizeof(error);
  return ready > 0 && ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 &&
         error == 0;
}

// Closed, with errno set, when the system refuses.
Descriptor listening(const sockaddr* address, socklen_t length) {
  Descriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return {};
  }
  turn_on(socket.value(), SOL_SOCKET, SO_REUSEADDR);
  if (::bind(socket.value(), address, length) != 0 || ::listen(socket.value(), kWaiting) != 0) {
    const int why = errno;
    socket = {};
    errno = why;
  }
  return socket;
}

Descriptor listening_everywhere(std::uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_any;
  Descriptor socket = listening(static_cast<sockaddr*>(static_cast<void*>(&six)), sizeof(six));
  if (socket.is_open() || errno != EAFNOSUPPORT) {
    return socket;
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  return listening(static_cast<sockaddr*>(static_cast<void*>(&four)), sizeof(four));
}

// Other machines reach a name that is the loopback here by another address.
bool means_loopback(const StoreAddress& address) {
  return address.host == "localhost" || addresses_of(address, AI_NUMERICHOST) != nullptr;
}

Descriptor listening_at(const StoreAddress& address) {
  const Addresses found = addresses_of(address, 0);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    if (is_loopback(at->ai_addr) && !means_loopback(address)) {
      continue;
    }
    Descriptor socket = listening(at->ai_addr, at->ai_addrlen);
    if (socket.is_open() || errno == EADDRINUSE || errno == EACCES) {
      return socket;
    }
  }
  return listening_everywhere(address.port);
}

}  // namespace

Listener listen_at(const StoreAddress& address) {
  Descriptor socket = listening_at(address);
  if (!socket.is_open()) {
    throw Error("MASTER_PORT", fmt::format("cannot listen on port {}: {}; name a free one",
                                           address.port, std::strerror(errno)));
  }
  const std::uint16_t port = port_of(socket.value());
  return {std::move(socket), port};
}

Descriptor connect_to(const StoreAddress& address, Seconds timeout) {
  const double deadline = now_seconds() + timeout.value;
  const Addresses found = addresses_of(address, 0);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.is_open() && connected(socket.value(), *at, deadline)) {
      ::fcntl(socket.value(), F_SETFL, 0);  // blocking from here on
      send_without_delay(socket.value());
      return socket;
    }
  }
  return {};
}

bool is_known(const StoreAddress& address) {
  return addresses_of(address, 0) != nullptr;
}

std::string address_towards(const StoreAddress& other) {
  const Addresses found = addresses_of(other, 0);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    const Descriptor socket(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    auto* address = static_cast<sockaddr*>(static_cast<void*>(&own));
    std::array<char, NI_MAXHOST> digits{};
    if (socket.is_open() && ::connect(socket.value(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(socket.value(), address, &length) == 0 &&
        ::getnameinfo(address, length, digits.data(), digits.size(), nullptr, 0, NI_NUMERICHOST) ==
            0) {
      return is_loopback(address) && !means_loopback(other) ? other.host
                                                            : std::string(digits.data());
    }
  }
  throw Error("MASTER_ADDR", fmt::format("there is no way to {} from here", other.host),
              ErrorKind::kMissingMachine);
}

bool send_all(int socket, std::string_view bytes) {
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

std::string host_identity() {
  constexpr std::size_t kMost = 64;  // it stands in greetings and messages
  const char* id = std::getenv("NCCL_HOSTID");
  std::array<char, 256> name{};
  if (id == nullptr || *id == '\0') {
    id = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
  }
  return std::string(id).substr(0, kMost);
}

void send_without_delay(int socket) {
  turn_on(socket, IPPROTO_TCP, TCP_NODELAY);
}

}  // namespace trireme::runtime
