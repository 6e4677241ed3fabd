// TCP sockets of the store: listening where an address says, connecting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/units.h"

namespace trireme::runtime {

struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string job = {};  // what the launcher calls the run: who is of another is turned away
};

struct Listener {
  Descriptor socket;
  std::uint16_t port = 0;
};

// Listens at `address` (port 0: a free one) and nowhere else. Where that cannot be, as of a name
// that means this machine to itself only (/etc/hosts: 127.0.1.1) or is forwarded to it, at every
// address of this machine. Throws Error when the port is in use.
Listener listen_at(const StoreAddress& address);

// A connection, or a closed descriptor when nobody answers there within `timeout` (a host that is
// gone, or a full queue, says nothing: the system itself waits two minutes).
Descriptor connect_to(const StoreAddress& address, Seconds timeout = Seconds(30));

// Whether anything here, a name server among it, knows the host.
bool is_known(const StoreAddress& address);

// This machine's own address, as digits, on its way to `other`; sends nothing. Throws Error when
// there is no way.
std::string address_towards(const StoreAddress& other);

// Sends all of it, waiting as long as it takes. False when the connection is lost.
bool send_all(int socket, std::string_view bytes);

// This machine as a failure names it: NCCL_HOSTID, which is how NCCL tells hosts apart, else its
// name.
std::string host_identity();

// Small messages go at once.
void send_without_delay(int socket);

}  // namespace trireme::runtime
