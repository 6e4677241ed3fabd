#include "runtime/cpu/links.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>

#include "core/error.h"
#include "runtime/clock.h"

namespace trireme::runtime::cpu {
namespace {

// Who connects says who it is, and what rank 0 told everyone: other programs do not know that.
struct Greeting {
  std::uint64_t secret = 0;
  std::uint64_t rank = 0;
};

struct Header {
  std::uint64_t words = 0;  // bytes of the lines
  std::uint64_t bytes = 0;
};

// Words are short, and no buffer of a machine is larger than this: what says so is nonsense.
constexpr std::uint64_t kWordsMost = 1U << 16U;
constexpr std::uint64_t kBytesMost = std::uint64_t{1} << 42U;

bool receive_all(int socket, void* to, std::size_t size) {
  auto* at = static_cast<std::byte*>(to);
  while (size > 0) {
    const ssize_t n = ::recv(socket, at, size, 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Where each rank listens and on which host it is, as rank 0 tells everyone.
struct Places {
  std::uint64_t secret = 0;
  std::vector<StoreAddress> addresses;
  std::vector<std::string> hosts;
};

Places exchange_places(Coordinator& coordinator, const StoreAddress& own) {
  std::string all;
  for (const std::string& line :
       coordinator.gather(fmt::format("{}\n{}\n{}\n", own.host, own.port, host_identity()))) {
    all += line;
  }
  std::random_device random;
  std::istringstream told(coordinator.broadcast(
      fmt::format("{}\n{}", (std::uint64_t{random()} << 32U) | random(), all)));
  Places places;
  std::string line;
  std::getline(told, line);
  places.secret = std::stoull(line);
  while (std::getline(told, line)) {
    StoreAddress address{.host = line};
    std::getline(told, line);
    address.port = static_cast<std::uint16_t>(std::stoul(line));
    std::getline(told, line);
    places.addresses.push_back(address);
    places.hosts.push_back(line);
  }
  return places;
}

// A rank of this run that connected, or a closed descriptor: nobody did, or somebody else.
Descriptor accepted(int listener, std::uint64_t secret, std::uint64_t& rank) {
  constexpr int kPatience = 100;  // milliseconds
  pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, kPatience) <= 0) {
    return {};
  }
  Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) {
    return {};
  }
  const timeval limit{.tv_sec = 5, .tv_usec = 0};  // for the greeting only
  ::setsockopt(socket.value(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  Greeting greeting;
  if (!receive_all(socket.value(), &greeting, sizeof(greeting)) || greeting.secret != secret) {
    return {};
  }
  const timeval none{};
  ::setsockopt(socket.value(), SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
  send_without_delay(socket.value());
  rank = greeting.rank;
  return socket;
}

}  // namespace

Links::Links(Coordinator& coordinator, const StoreAddress& master, Seconds timeout, Receive receive)
    : receive_(std::move(receive)) {
  const auto own = static_cast<std::size_t>(index_of(coordinator.rank()));
  const std::string host = address_towards(master);
  const Listener listener = listen_at({host, 0});
  Places places = exchange_places(coordinator, {host, listener.port});
  hosts_ = std::move(places.hosts);
  connections_.resize(hosts_.size());
  const double deadline = now_seconds() + timeout.value;
  // To the ranks below; those above come here.
  for (std::size_t other = 0; other < own; ++other) {
    connections_[other] = connect_to(places.addresses[other], Seconds(deadline - now_seconds()));
    const Greeting greeting{.secret = places.secret, .rank = own};
    std::string bytes(sizeof(greeting), '\0');
    std::memcpy(bytes.data(), &greeting, sizeof(greeting));
    if (!connections_[other].is_open() || !send_all(connections_[other].value(), bytes)) {
      throw Error(
          name(coordinator.rank()),
          fmt::format("cannot reach {} at {}:{}", name(Rank(static_cast<std::uint32_t>(other))),
                      places.addresses[other].host, places.addresses[other].port),
          ErrorKind::kMissingMachine);
    }
  }
  for (std::size_t missing = connections_.size() - own - 1; missing > 0;) {
    std::uint64_t rank = 0;
    Descriptor socket = accepted(listener.socket.value(), places.secret, rank);
    if (socket.is_open() && rank > own && rank < connections_.size() &&
        !connections_[rank].is_open()) {
      connections_[rank] = std::move(socket);
      --missing;
    } else if (now_seconds() > deadline) {
      throw Error(name(coordinator.rank()),
                  fmt::format("{} ranks did not connect within {:.3g} s", missing, timeout.value),
                  ErrorKind::kMissingMachine);
    }
  }
  for (std::size_t other = 0; other < connections_.size(); ++other) {
    if (other != own) {
      readers_.emplace_back([this, other] { read(Rank(static_cast<std::uint32_t>(other))); });
    }
  }
}

Links::~Links() {
  for (const Descriptor& connection : connections_) {
    if (connection.is_open()) {
      ::shutdown(connection.value(), SHUT_RDWR);
    }
  }
  for (std::thread& reader : readers_) {
    reader.join();
  }
}

void Links::send(Rank to, const std::vector<std::string>& words,
                 std::span<const std::span<const std::byte>> parts) {
  Header header;
  std::string lines;
  for (const std::string& word : words) {
    lines += word + '\n';
  }
  header.words = lines.size();
  for (const auto& part : parts) {
    header.bytes += part.size();
  }
  std::string front(sizeof(header), '\0');
  std::memcpy(front.data(), &header, sizeof(header));
  const int socket = connections_[index_of(to)].value();
  bool sent = send_all(socket, front + lines);
  for (const auto& part : parts) {
    sent = sent &&
           send_all(socket,
                    {static_cast<const char*>(static_cast<const void*>(part.data())), part.size()});
  }
  if (!sent) {
    throw Error(name(to), "has closed its connection", ErrorKind::kMissingMachine);
  }
}

std::string Links::name(Rank rank) const {
  return fmt::format("rank {} on {}", index_of(rank), hosts_[index_of(rank)]);
}

// Ends where the connection does, and ends it at a letter that cannot be: that a rank has gone is
// what the run's watch (peer_watch.h) says.
void Links::read(Rank from) {
  try {
    read_letters(from);
  } catch (const std::exception&) {
    // no memory for what a letter says it holds
  }
  ::shutdown(connections_[index_of(from)].value(), SHUT_RDWR);
}

void Links::read_letters(Rank from) {
  const int socket = connections_[index_of(from)].value();
  Header header;
  while (receive_all(socket, &header, sizeof(header)) && header.words <= kWordsMost &&
         header.bytes <= kBytesMost) {
    std::string lines(header.words, '\0');
    Letter letter;
    letter.bytes.resize(header.bytes);
    if (!receive_all(socket, lines.data(), lines.size()) ||
        !receive_all(socket, letter.bytes.data(), letter.bytes.size())) {
      return;
    }
    std::istringstream text(lines);
    for (std::string word; std::getline(text, word);) {
      letter.words.push_back(word);
    }
    receive_(from, std::move(letter));
  }
}

}  // namespace trireme::runtime::cpu
