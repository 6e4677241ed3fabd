#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "runtime/tcp_frame.h"
#include "runtime/tcp_store.h"

namespace trireme::runtime {
namespace {

constexpr std::size_t kHelloMost = 256;     // bytes that are taken from who is no rank yet
constexpr int kPauseMilliseconds = 100;     // when the system gives no more descriptors
constexpr std::size_t kChunk = 64U << 10U;  // read at once
constexpr int kWatchMilliseconds = 200;     // between looks at who has fallen silent

using Clock = std::chrono::steady_clock;

std::int64_t whole_number(const std::string& text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < low || value > high) {
    throw Error("MASTER_PORT", "something that is not trireme talks on this port");
  }
  return value;
}

}  // namespace

// One thread that polls the listening socket and every client. Nothing here waits for one client:
// what it does not read stays in its outbox, and until that is empty nothing more is read from it.
class TcpStoreServer::Loop {
 public:
  Loop(Listener listener, std::string job, Seconds silence)
      : listener_(std::move(listener)),
        job_(std::move(job)),
        silence_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(silence.value))) {
    // Each rank of a launcher holds two connections.
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
      files.rlim_cur = files.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &files);
    }
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error("MASTER_PORT", fmt::format("the store gets no pipe: {}", std::strerror(errno)));
    }
    wake_ = Descriptor(ends[0]);
    stop_ = Descriptor(ends[1]);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw Error("MASTER_PORT", fmt::format("the store gets no thread: {}", error.what()));
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;
  ~Loop() {
    const char stop = 's';
    while (::write(stop_.value(), &stop, 1) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return listener_.port; }

 private:
  struct Client {
    Descriptor socket;
    std::string inbox, outbox;
    Frame waits;  // a get that is not answered yet; kind 0: none
    std::int64_t rank = -1;
    std::string host;
    bool watches = false;  // beside the rank's own connection
    Clock::time_point heard;
    bool goodbye = false;
  };
  struct Value {
    std::string bytes;
    std::int64_t reads = 0;
  };

  void run() {
    bool accepting = true;
    while (true) {
      std::vector<pollfd> polled = {{wake_.value(), POLLIN, 0},
                                    {accepting ? listener_.socket.value() : -1, POLLIN, 0}};
      for (const auto& [id, client] : clients_) {
        const bool sends = !client.outbox.empty();
        polled.push_back({client.socket.value(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      }
      const int ready = ::poll(polled.data(), polled.size(), pause(accepting));
      if (polled[0].revents != 0 || (ready < 0 && errno != EINTR)) {
        return;
      }
      for (std::size_t i = 2; i < polled.size(); ++i) {
        if (ready > 0 && polled[i].revents != 0) {
          serve(polled[i].fd);
        }
      }
      accepting = polled[1].revents == 0 || accept_one();
      fail_the_silent();
    }
  }

  [[nodiscard]] int pause(bool accepting) const {
    const bool watches = std::any_of(clients_.begin(), clients_.end(),
                                     [](const auto& each) { return each.second.watches; });
    return !accepting ? kPauseMilliseconds : watches ? kWatchMilliseconds : -1;
  }

  // A stopped process and a host without power keep their connections: only silence tells.
  void fail_the_silent() {
    for (auto& [id, client] : clients_) {
      if (client.watches && Clock::now() - client.heard > silence_) {
        client.watches = false;
        fail(
            fmt::format("{} has said nothing for {:.3g} s: its process is stopped, or its host or "
                        "network is gone",
                        name_of(client), std::chrono::duration<double>(silence_).count()));
      }
    }
  }

  static std::string name_of(const Client& client) {
    return fmt::format("rank {}{}{}", client.rank, client.host.empty() ? "" : " on ", client.host);
  }

  // False when there is no descriptor for it: asked again at once, the system would say the same.
  bool accept_one() {
    Descriptor socket(
        ::accept4(listener_.socket.value(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    }
    send_without_delay(socket.value());
    const int id = socket.value();
    clients_[id].socket = std::move(socket);
    return true;
  }

  void serve(int id) {
    Client& client = clients_.at(id);
    bool open = true;
    try {
      open = flush(client) && (!client.outbox.empty() || (answer_all(client) && receive(client)));
    } catch (const std::exception&) {  // nonsense, or more than there is memory for
      open = false;
    }
    if (!open) {
      const bool gone = client.rank >= 0 && !client.watches && !client.goodbye;
      const std::string name = name_of(client);
      clients_.erase(id);
      if (gone) {
        fail(name + " has gone");
      }
    }
  }

  // Sends what the client's socket takes now. False when the connection is lost.
  static bool flush(Client& client) {
    const ssize_t n = ::send(client.socket.value(), client.outbox.data(), client.outbox.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    client.outbox.erase(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return n >= 0 || errno == EAGAIN || errno == EINTR;
  }

  bool receive(Client& client) {
    std::array<char, kChunk> chunk{};
    const ssize_t n = ::recv(client.socket.value(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    client.inbox.append(chunk.data(), static_cast<std::size_t>(n));
    return n > 0 && answer_all(client);
  }

  bool answer_all(Client& client) {
    Frame frame;
    while (client.outbox.empty() &&
           decode(client.inbox, frame, client.rank < 0 ? kHelloMost : kFrameMost)) {
      answer(client, frame);
    }
    return true;
  }

  static void reply(Client& client, const Frame& frame) {
    client.outbox += encode(frame);
    flush(client);  // a lost connection is seen by the next poll
  }

  void answer(Client& client, const Frame& frame) {
    client.heard = Clock::now();
    if (client.rank < 0 && frame.kind != 'H' && frame.kind != 'W') {
      throw Error("MASTER_PORT", "something that is not trireme talks on this port");
    }
    switch (frame.kind) {
      case 'H':
      case 'W':
        hello(client, frame);
        return;
      case 'S':
        values_[frame.key] = {frame.value, 0};
        for (auto& [id, other] : clients_) {
          if (other.waits.kind != 0 && other.waits.key == frame.key) {
            get(other, std::exchange(other.waits, {}));
          }
        }
        return;
      case 'G':
        get(client, frame);
        return;
      case 'Q':
        reply(client, {'V', "", failure_});
        return;
      case 'F':
        fail(frame.key);
        return;
      case 'B':
        client.goodbye = true;
        return;
      default:
        throw Error("MASTER_PORT", "something that is not trireme talks on this port");
    }
  }

  void get(Client& client, const Frame& frame) {
    const auto found = values_.find(frame.key);
    if (found != values_.end()) {
      reply(client, {'V', frame.key, found->second.bytes});
      if (std::to_string(++found->second.reads) == frame.value) {
        values_.erase(found);
      }
    } else if (!failure_.empty()) {
      reply(client, {'E', failure_, ""});
    } else {
      client.waits = frame;
    }
  }

  void hello(Client& client, const Frame& frame) {
    constexpr std::int64_t kRanksMost = 1 << 20;
    const std::size_t blank = std::min(frame.value.find(' '), frame.value.size());
    const std::string run = frame.value.substr(0, blank);
    const std::size_t at = std::min(run.find('@'), run.size());
    const std::int64_t ranks = whole_number(run.substr(0, at), 1, kRanksMost);
    const std::int64_t rank = whole_number(frame.key, 0, ranks - 1);
    const bool watches = frame.kind == 'W';
    const std::string job = at < run.size() ? run.substr(at + 1) : "";
    if (job != job_) {
      turn_away(client, fmt::format("this port serves the job {}, not {}; name another one in "
                                    "MASTER_PORT",
                                    job_.empty() ? "without a name" : job_,
                                    job.empty() ? "one without a name" : job));
      return;
    }
    std::string problem;
    if (ranks_ != 0 && ranks_ != ranks) {
      problem = fmt::format("rank {} was started with WORLD_SIZE {}, another rank with {}", rank,
                            ranks, ranks_);
    }
    for (const auto& [id, known] : clients_) {
      if (known.rank == rank && !known.watches && !watches) {
        problem = fmt::format("two processes say they are rank {}", rank);
      }
    }
    if (!problem.empty()) {
      if (!all_are_here()) {  // or it is of another run, which this one's ranks need not end for
        fail(problem);
      }
      turn_away(client, problem);
      return;
    }
    ranks_ = ranks;
    client.rank = rank;
    client.watches = watches;
    client.host = frame.value.substr(std::min(blank + 1, frame.value.size()));
    reply(client, {'V', "", "trireme"});
  }

  static void turn_away(Client& client, const std::string& why) { reply(client, {'E', why, ""}); }

  [[nodiscard]] bool all_are_here() const {
    return ranks_ > 0 &&
           ranks_ == std::count_if(clients_.begin(), clients_.end(), [](const auto& each) {
             return each.second.rank >= 0 && !each.second.watches;
           });
  }

  void fail(const std::string& reason) {
    if (failure_.empty()) {
      failure_ = reason;
    }
    for (auto& [id, client] : clients_) {
      if (client.waits.kind != 0) {
        client.waits = {};
        reply(client, {'E', failure_, ""});
      }
    }
  }

  Listener listener_;
  std::string job_;
  Clock::duration silence_;
  Descriptor wake_, stop_;
  std::map<int, Client> clients_;  // by descriptor
  std::map<std::string, Value> values_;
  std::int64_t ranks_ = 0;
  std::string failure_;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const StoreAddress& address, Seconds silence)
    : TcpStoreServer(listen_at(address), address.job, silence) {}
TcpStoreServer::TcpStoreServer(Listener listener, const std::string& job, Seconds silence)
    : loop_(std::make_unique<Loop>(std::move(listener), job, silence)) {}
TcpStoreServer::~TcpStoreServer() = default;
std::uint16_t TcpStoreServer::port() const {
  return loop_->port();
}

}  // namespace trireme::runtime
