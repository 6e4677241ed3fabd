// A key-value store over TCP through which the processes of a run meet: rank 0 serves at
// MASTER_ADDR:MASTER_PORT, all ranks are clients. Carries NCCL's unique ids, barriers and small
// results. A client that leaves without goodbye fails the run, and so does a watch (peer_watch.h)
// that falls silent: every later request is answered with who it was and on which host. Who never
// introduces itself, sends nonsense, does not read or is of another run harms nobody else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/ids.h"
#include "core/units.h"
#include "runtime/sockets.h"

namespace trireme::runtime {

struct Frame;

// How long a stopped process or a host that is gone stays unnoticed.
inline constexpr Seconds kSilenceMost{30};

class TcpStoreServer {
 public:
  // Listens at `address` (port 0: a free one), as listen_at says. A watch that says nothing for
  // `silence` fails the run. Throws Error.
  explicit TcpStoreServer(const StoreAddress& address, Seconds silence = kSilenceMost);
  explicit TcpStoreServer(Listener listener, const std::string& job = {},
                          Seconds silence = kSilenceMost);
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;
  TcpStoreServer(TcpStoreServer&&) = delete;
  TcpStoreServer& operator=(TcpStoreServer&&) = delete;
  ~TcpStoreServer();
  [[nodiscard]] std::uint16_t port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

// A rank's own connection, or the one beside it that only asks how the others are.
enum class StoreClientKind : char { kRank = 'H', kWatch = 'W' };

class TcpStoreClient {
 public:
  // Connects, trying again until `timeout`, and introduces itself. Throws Error when nobody
  // answers, or when the server knows another world size or already has this rank.
  TcpStoreClient(const StoreAddress& address, Rank rank, std::int64_t ranks, Seconds timeout,
                 StoreClientKind kind = StoreClientKind::kRank);
  TcpStoreClient(const TcpStoreClient&) = delete;
  TcpStoreClient& operator=(const TcpStoreClient&) = delete;
  TcpStoreClient(TcpStoreClient&&) = delete;
  TcpStoreClient& operator=(TcpStoreClient&&) = delete;
  ~TcpStoreClient();  // says goodbye, unless an exception is in flight

  // Throws Error when the store is gone, or the value is larger than a frame (tcp_frame.h).
  void set(const std::string& key, const std::string& value);
  // Waits for the key. When `readers` ranks have read it, the store forgets it; 0: it stays. Throws
  // Error after `timeout`, or when a rank has failed.
  std::string get(const std::string& key, Seconds timeout, std::int64_t readers = 0);
  // Why the run has failed, or empty; does not wait. Throws Error when the store does not answer.
  std::string failure();
  // Tells everyone that this rank has failed.
  void fail(const std::string& reason);

 private:
  // The answer comes under the key `answered`; what comes late of a request that was given up is
  // passed over.
  std::string request(const Frame& asked, const std::string& answered, const std::string& what,
                      Seconds timeout);
  // Waits until `deadline`, `timeout` after the request for `what`, for something to come.
  void receive(const std::string& what, Seconds timeout, double deadline);
  Descriptor socket_;
  std::string inbox_;
  Rank rank_;
  int exceptions_;
};

}  // namespace trireme::runtime
