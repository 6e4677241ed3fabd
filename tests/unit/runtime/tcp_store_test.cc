// The store of rank 0: what its clients may rely on, and what nobody can do to it.
#include "runtime/tcp_store.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "core/error.h"
#include "runtime/peer_watch.h"
#include "runtime/tcp_frame.h"
#include "tests/unit/message_of.h"
#include "tests/unit/runtime/never.h"

namespace trireme::runtime {
namespace {

// A time-out that ends nothing here: a wait that only it would end fails the test by the runner's.

const StoreAddress kFree{"127.0.0.1", 0};

StoreAddress address_of(const TcpStoreServer& server) {
  return {"127.0.0.1", server.port()};
}

// Waits until the server has closed the connection.
bool is_closed(const Descriptor& connection) {
  char byte = 0;
  return ::recv(connection.value(), &byte, 1, 0) <= 0;
}

TEST(TcpStore, CarriesValuesAndWaits) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  TcpStoreClient one(address_of(server), Rank(1), 2, kNever);
  const std::string blob("with\0zero", 9);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    one.set("key", blob);
  });
  EXPECT_EQ(zero.get("key", kNever), blob);
  late.join();
  EXPECT_NE(message_of([&] { zero.get("never", Seconds(0.05)); }).find("waited"),
            std::string::npos);
}

// What was gathered in every step stayed until the end of the run.
TEST(TcpStore, ForgetsWhatAllHaveRead) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  TcpStoreClient one(address_of(server), Rank(1), 2, kNever);
  zero.set("key", "value");
  EXPECT_EQ(zero.get("key", kNever, 2), "value");
  EXPECT_EQ(one.get("key", kNever, 2), "value");
  EXPECT_NE(message_of([&] { one.get("key", Seconds(0.05), 2); }).find("waited"),
            std::string::npos);
}

// An answer that came after its request was given up was taken for the next one's.
TEST(TcpStore, ALateAnswerIsNotTheNextOnes) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  TcpStoreClient one(address_of(server), Rank(1), 2, kNever);
  EXPECT_NE(message_of([&] { zero.get("late", Seconds(0.05)); }).find("waited"), std::string::npos);
  one.set("key", "value");
  one.set("late", "of the request that was given up");
  EXPECT_EQ(one.get("late", kNever), "of the request that was given up");
  EXPECT_EQ(zero.failure(), "");
  EXPECT_EQ(zero.get("key", kNever), "value");
}

// A host that does not answer kept who connected for the system's two minutes.
TEST(Sockets, ConnectingEndsAtItsTimeOut) {
  const Descriptor full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const where = static_cast<sockaddr*>(static_cast<void*>(&address));
  ASSERT_EQ(::bind(full.value(), where, length), 0);
  ASSERT_EQ(::listen(full.value(), 0), 0);
  ASSERT_EQ(::getsockname(full.value(), where, &length), 0);
  const StoreAddress place{"127.0.0.1", ntohs(address.sin_port)};
  std::vector<Descriptor> waiting;  // those that are not accepted fill the queue
  for (bool room = true; room && waiting.size() < 16;) {
    waiting.push_back(connect_to(place, Seconds(0.2)));
    room = waiting.back().is_open();
  }
  EXPECT_FALSE(waiting.back().is_open());
}

TEST(TcpStore, PortInUseAndNobodyThereAreErrors) {
  const TcpStoreServer server(kFree);
  EXPECT_NE(message_of([&] { const TcpStoreServer second(address_of(server)); }).find("in use"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              TcpStoreClient({"127.0.0.1", 1}, Rank(1), 2, Seconds(0.1));
            }).find("nobody answers"),
            std::string::npos);
}

TEST(TcpStore, MismatchedWorldSizeAndDoubleRankAreErrors) {
  const TcpStoreServer server(kFree);
  const TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  EXPECT_NE(message_of([&] {
              TcpStoreClient(address_of(server), Rank(1), 3, kNever);
            }).find("WORLD_SIZE 3"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              TcpStoreClient(address_of(server), Rank(0), 2, kNever);
            }).find("two processes"),
            std::string::npos);
}

// A second run with the first one's port ended both.
TEST(TcpStore, ARankOfAnotherRunIsTurnedAway) {
  const TcpStoreServer named({"127.0.0.1", 0, "job-1"});
  const StoreAddress own{"127.0.0.1", named.port(), "job-1"};
  const StoreAddress other{"127.0.0.1", named.port(), "job-2"};
  EXPECT_NE(message_of([&] {
              TcpStoreClient(other, Rank(1), 2, kNever);
            }).find("the job job-1, not job-2"),
            std::string::npos);
  TcpStoreClient first(own, Rank(0), 2, kNever);
  TcpStoreClient second(own, Rank(1), 2, kNever);
  EXPECT_EQ(first.failure(), "");
  // Launchers that give no names: once all ranks are there, who comes is of another run.
  const TcpStoreServer nameless(kFree);
  TcpStoreClient zero(address_of(nameless), Rank(0), 2, kNever);
  TcpStoreClient one(address_of(nameless), Rank(1), 2, kNever);
  for (const std::int64_t ranks : {2, 3}) {
    EXPECT_NE(message_of([&] { TcpStoreClient(address_of(nameless), Rank(1), ranks, kNever); }),
              "");
  }
  EXPECT_EQ(zero.failure(), "");
  EXPECT_EQ(one.failure(), "");
}

TEST(TcpStore, AHostThatNobodyKnowsIsNamed) {
  EXPECT_NE(message_of([] {
              TcpStoreClient({"no-such-host.invalid", 1}, Rank(1), 2, Seconds(0.01));
            }).find("no host no-such-host.invalid is known here"),
            std::string::npos);
}

TEST(TcpStore, ARankThatVanishesFailsTheOthers) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  const pid_t child = ::fork();
  if (child == 0) {
    const TcpStoreClient one(address_of(server), Rank(1), 2, kNever);
    std::_Exit(0);  // without goodbye, as a killed process
  }
  EXPECT_NE(message_of([&] {
              zero.get("never", kNever);
            }).find("rank 1 on " + host_identity() + " has gone"),
            std::string::npos);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

// A rank inside a collective learned of a killed peer by its time-out alone, without a name.
TEST(TcpStore, AWatchIsToldOfARankThatVanishes) {
  const TcpStoreServer server(kFree);
  std::promise<std::string> told;
  const PeerWatch watch(address_of(server), Rank(0), 2, kNever,
                        [&](const std::string& reason) { told.set_value(reason); },
                        {.period = Seconds(0.01), .grace = Seconds(0.01)});
  const pid_t child = ::fork();
  if (child == 0) {
    const TcpStoreClient one(address_of(server), Rank(1), 2, kNever);
    std::_Exit(0);
  }
  EXPECT_EQ(told.get_future().get(), "rank 1 on " + host_identity() + " has gone");
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

// A stopped process and a host without power keep their connections.
TEST(TcpStore, AWatchThatFallsSilentFailsTheRun) {
  const TcpStoreServer server(kFree, Seconds(0.3));
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  const Descriptor stopped = connect_to(address_of(server));
  ASSERT_TRUE(send_all(stopped.value(), encode({'W', "1", "2 node-7"})));
  EXPECT_NE(message_of([&] {
              zero.get("never", kNever);
            }).find("rank 1 on node-7 has said nothing for 0.3 s"),
            std::string::npos);
}

TEST(TcpStore, AWatchThatEndsTellsNothing) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  const auto tells = [](const std::string& reason) { ADD_FAILURE() << reason; };
  { const PeerWatch watch(address_of(server), Rank(1), 2, kNever, tells, {}); }
  EXPECT_EQ(zero.failure(), "");
}

// A rank that was no number ended the process of rank 0.
TEST(TcpStore, NonsenseEndsItsSenderOnly) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  const std::vector<std::string> nonsense = {encode({'H', "x", "2"}),
                                             encode({'H', "", ""}),
                                             encode({'H', "-1", "2"}),
                                             encode({'H', "2", "2"}),
                                             encode({'H', "1", "99999999999999999999"}),
                                             encode({'H', "1 ", "2"}),
                                             encode({'Z', "", ""}),
                                             encode({'S', "key", "of a stranger"}),
                                             encode({'F', "a stranger's failure", ""}),
                                             "GET / HTTP/1.1\r\nHost: trireme\r\n\r\n",
                                             std::string("H\xff\xff\xff\xff\xff\xff\xff\xff", 9)};
  for (const std::string& bytes : nonsense) {
    const Descriptor stranger = connect_to(address_of(server));
    ASSERT_TRUE(stranger.is_open());
    ASSERT_TRUE(send_all(stranger.value(), bytes));
    EXPECT_TRUE(is_closed(stranger)) << bytes;
  }
  zero.set("key", "value");
  EXPECT_EQ(zero.get("key", kNever), "value");
  EXPECT_EQ(zero.failure(), "");
  TcpStoreClient one(address_of(server), Rank(1), 2, kNever);
  EXPECT_EQ(one.get("key", kNever), "value");
}

// Short reads and a connection that is reset instead of closed.
TEST(TcpStore, FramesComeInPiecesAndAResetNamesItsRank) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  {
    const Descriptor one = connect_to(address_of(server));
    ASSERT_TRUE(one.is_open());
    for (const char byte : encode({'H', "1", "2"}) + encode({'S', "key", "in pieces"})) {
      ASSERT_TRUE(send_all(one.value(), std::string(1, byte)));
    }
    EXPECT_EQ(zero.get("key", kNever), "in pieces");
    const linger reset{1, 0};
    ASSERT_EQ(::setsockopt(one.value(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  }
  EXPECT_NE(message_of([&] { zero.get("never", kNever); }).find("rank 1 has gone"),
            std::string::npos);
}

// It listened at every address of the machine.
TEST(TcpStore, ListensAtItsAddressOnly) {
  const TcpStoreServer server(kFree);
  EXPECT_TRUE(connect_to({"127.0.0.1", server.port()}).is_open());
  EXPECT_FALSE(connect_to({"127.0.0.2", server.port()}).is_open());
}

// A client could make rank 0 hold two gigabytes for it.
TEST(TcpStore, WhatAClientMayMakeItHoldIsBounded) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  // A stranger announces a kilobyte; a rank announces more than a frame has.
  const Descriptor stranger = connect_to(address_of(server));
  ASSERT_TRUE(send_all(stranger.value(), std::string("H\x00\x04\x00\x00\x00\x00\x00\x00", 9)));
  EXPECT_TRUE(is_closed(stranger));
  const Descriptor rank = connect_to(address_of(server));
  ASSERT_TRUE(send_all(
      rank.value(), encode({'H', "1", "2"}) + std::string("S\x01\x00\x00\x00\x00\x00\x00\x40", 9)));
  std::string greeting(64, '\0');
  while (::recv(rank.value(), greeting.data(), greeting.size(), 0) > 0) {
  }
  EXPECT_NE(zero.failure().find("rank 1 has gone"), std::string::npos);
  EXPECT_NE(message_of([&] { zero.set("key", std::string(kFrameMost, 'x')); }).find("bytes"),
            std::string::npos);
}

// Rank 0 sent to one client until it had read, and answered nobody else meanwhile.
TEST(TcpStore, AClientThatDoesNotReadStallsNobody) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  zero.set("large", std::string(std::size_t{16} << 20U, 'x'));
  const Descriptor slow = connect_to(address_of(server));
  std::string requests = encode({'H', "1", "2"});
  for (int i = 0; i < 4; ++i) {
    requests += encode({'G', "large", ""});
  }
  ASSERT_TRUE(send_all(slow.value(), requests));
  for (int i = 0; i < 100; ++i) {
    zero.set("key", std::to_string(i));
    EXPECT_EQ(zero.get("key", kNever), std::to_string(i));
  }
}

double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// Without descriptors for a connection that waits, it asked the system again and again.
TEST(TcpStore, DoesNotSpinWithoutDescriptorsAndGoesOnWithThem) {
  const TcpStoreServer server(kFree);
  TcpStoreClient zero(address_of(server), Rank(0), 2, kNever);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Descriptor waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit narrow{static_cast<rlim_t>(waiting.value()) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &narrow), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected = ::connect(
      waiting.value(), static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof(address));
  const double used = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(cpu_seconds() - used, 0.2);  // of CPU time: what a spinning thread takes of a second
  zero.set("key", "value");
  EXPECT_EQ(zero.get("key", kNever), "value");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(connected, 0);
  ASSERT_TRUE(send_all(waiting.value(), encode({'H', "1", "2"})));
  char byte = 0;
  EXPECT_EQ(::recv(waiting.value(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'V');
}

}  // namespace
}  // namespace trireme::runtime
