#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <thread>

#include "core/error.h"
#include "runtime/clock.h"
#include "runtime/tcp_frame.h"
#include "runtime/tcp_store.h"

namespace trireme::runtime {
TcpStoreClient::TcpStoreClient(const StoreAddress& address, Rank rank, std::int64_t ranks,
                               Seconds timeout, StoreClientKind kind)
    : rank_(rank), exceptions_(std::uncaught_exceptions()) {
  constexpr Seconds kTry(5);  // who is not up yet answers a later one sooner
  const double deadline = now_seconds() + timeout.value;
  while (!(socket_ = connect_to(address, std::min(kTry, Seconds(deadline - now_seconds()))))
              .is_open()) {
    if (now_seconds() > deadline) {
      throw Error("MASTER_ADDR",
                  fmt::format("rank {}: ", index_of(rank)) +
                      (is_known(address)
                           ? fmt::format("nobody answers at {}:{} within {:.3g} s", address.host,
                                         address.port, timeout.value)
                           : fmt::format("no host {} is known here; give the address of rank 0's",
                                         address.host)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  request({static_cast<char>(kind), std::to_string(index_of(rank)),
           fmt::format("{}@{} {}", ranks, address.job, host_identity())},
          "", "rank 0's greeting", timeout);
}

TcpStoreClient::~TcpStoreClient() {
  if (std::uncaught_exceptions() == exceptions_) {
    send_all(socket_.value(), encode({'B', "", ""}));
  }
}

void TcpStoreClient::set(const std::string& key, const std::string& value) {
  if (!send_all(socket_.value(), encode({'S', key, value}))) {
    throw Error(fmt::format("rank {}", index_of(rank_)), "lost its connection to rank 0");
  }
}

std::string TcpStoreClient::get(const std::string& key, Seconds timeout, std::int64_t readers) {
  return request({'G', key, readers > 0 ? std::to_string(readers) : ""}, key, key, timeout);
}
std::string TcpStoreClient::failure() {
  return request({'Q', "", ""}, "", "rank 0's store", kSilenceMost);
}
void TcpStoreClient::fail(const std::string& reason) {
  send_all(socket_.value(), encode({'F', reason, ""}));
}

std::string TcpStoreClient::request(const Frame& asked, const std::string& answered,
                                    const std::string& what, Seconds timeout) {
  const std::string self = fmt::format("rank {}", index_of(rank_));
  if (!send_all(socket_.value(), encode(asked))) {
    throw Error(self, "lost its connection to rank 0");
  }
  const double deadline = now_seconds() + timeout.value;
  Frame frame;
  do {
    while (!decode(inbox_, frame)) {
      receive(what, timeout, deadline);
    }
    if (frame.kind == 'E') {
      throw Error(self, "stopped because " + frame.key);
    }
  } while (frame.key != answered);
  return frame.value;
}

void TcpStoreClient::receive(const std::string& what, Seconds timeout, double deadline) {
  const std::string self = fmt::format("rank {}", index_of(rank_));
  const double left = std::clamp(deadline - now_seconds(), 0.0, 1e6);
  pollfd polled{socket_.value(), POLLIN, 0};
  const int ready = left > 0 ? ::poll(&polled, 1, static_cast<int>(left * 1e3) + 1) : 0;
  if (ready < 0 && errno == EINTR) {
    return;
  }
  if (ready <= 0) {
    throw Error(self, fmt::format("waited {:.3g} s for {}", timeout.value, what));
  }
  std::array<char, 65536> chunk{};
  const ssize_t n = ::recv(socket_.value(), chunk.data(), chunk.size(), 0);
  if (n < 0 && errno == EINTR) {
    return;
  }
  if (n <= 0) {
    throw Error(self, "lost its connection to rank 0");
  }
  inbox_.append(chunk.data(), static_cast<std::size_t>(n));
}

}  // namespace trireme::runtime
