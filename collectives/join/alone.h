// libmuster without a launcher. Ranks may be started by hand, by another launcher or in a test. They must find rank 0,
// which hosts their session (session_host.h). CONTRACT §1:
//
//   MUSTER_RANK=3 MUSTER_SIZE=8
//   MUSTER_RENDEZVOUS=tcp://host:port    rank 0 listens there
//   MUSTER_SECRET_FILE=path              with tcp://: names a file with 64 hexadecimal digits (openssl rand -hex 32),
//                                        of mode 0600, owned by this user, the same on all hosts
//   MUSTER_RENDEZVOUS=file:///directory  a directory that all ranks share, of this user and mode 0700; made if it
//                                        is missing
//
// With file:///, rank 0 writes its address into the directory, and a secret that it makes for this start.
//
// Ranks never join an earlier start that used the same directory. Rank 0 removes old files before it writes its own.
// The other ranks accept a file only if the listener at its address knows the secret in the file. Until they find such
// a file, they read again when the directory changes, and every 200 ms, because a network file system reports no
// changes.
//
// Thread: any; calls block.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline join {

// The settings of the environment. They are checked, but no name is looked up and no file is opened.
struct AloneSettings {
  int rank = 0;
  int size = 1;
  std::string host;  // a name or an address, for tcp://; empty means file://
  std::uint16_t port = 0;
  std::string directory;    // for file://
  std::string secret_file;  // for tcp://
};

// nullopt if MUSTER_RENDEZVOUS is not set. INVALID_ARGUMENT names the variable and the values that it accepts.
base::Result<std::optional<AloneSettings>> read_alone_settings(const base::Environment& environment);

// The session host's addresses, and the secret with which both ends authenticate each other.
struct AlonePlace {
  std::string secret;                      // 32 bytes
  std::vector<base::IpAddress> addresses;  // of rank 0's host, the best one first
  std::uint16_t port = 0;
};

// The file that rank 0 has published in a shared directory. The destructor removes it, unless another start has
// replaced it.
class Published {
 public:
  Published() = default;
  Published(std::string path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}
  ~Published();
  Published(Published&& other) noexcept : path_(std::move(other.path_)), content_(std::move(other.content_)) {
    other.path_.clear();
  }
  Published& operator=(Published&& other) noexcept;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

 private:
  std::string path_;  // empty if nothing is published
  std::string content_;
};

// Rank 0's side. The caller must answer connections to `listening` (non-blocking) by a handshake with place.secret.
// Connections for the purpose kSession go to the SessionHost, which gets the same secret. Keep `published` as long as
// ranks may join.
struct AloneHost {
  AlonePlace place;
  base::UniqueFd listening;
  Published published;
};
base::Result<AloneHost> open_alone(const AloneSettings& settings);

// The function with which the other ranks try to connect to a place. UNAVAILABLE and UNAUTHENTICATED mean that rank 0
// is not there yet. The caller then tries again.
using Reach = std::function<base::Result<base::UniqueFd>(const AlonePlace& place, std::chrono::milliseconds deadline)>;

struct AloneGuest {
  AlonePlace place;
  base::UniqueFd session;  // authenticated connection to rank 0, for Session::connect
};
// Tries until rank 0 is reached. The message of DEADLINE_EXCEEDED contains the error of the last attempt.
base::Result<AloneGuest> join_alone(const AloneSettings& settings, const Reach& reach,
                                    std::chrono::milliseconds deadline);

// Returns the host's addresses, loopback last. UNAVAILABLE if no interface is up.
base::Result<std::vector<base::IpAddress>> addresses_of_this_host();

// Returns the address at which ranks of other hosts reach this process: the local address of `session`, a session
// socket. That address may be loopback, because a host name may mean loopback on its own host (Debian's 127.0.1.1).
// Then returns the host's best address instead, unless the user gave a literal address.
base::Result<base::IpAddress> address_for_others(const AloneSettings& settings, int session);

// Returns a function that tries each address in turn: it connects by TCP, then does this rank's kSession handshake.
Reach reach_session_host(int rank);

}  // namespace muster::collectives::join
