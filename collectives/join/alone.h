// libmuster without a launcher: ranks that were started by hand, by another launcher or in a test find rank 0, which is
// the host of their session (session_host.h). CONTRACT §1:
//
//   MUSTER_RANK=3 MUSTER_SIZE=8
//   MUSTER_RENDEZVOUS=tcp://host:port   rank 0 listens there. MUSTER_SECRET_FILE names a file with 64 hexadecimal
//   digits
//                                       (openssl rand -hex 32), 0600 and ours, the same on all hosts.
//   MUSTER_RENDEZVOUS=file:///directory a directory that all ranks share, ours and 0700; it is made if it is missing.
//                                       Rank 0 writes into it where it listens, and a secret made for this start.
//
// A start that follows another one in the same directory never meets it: rank 0 removes what lies there before it
// writes its own, and the others believe what they read only when who listens there knows the secret that goes with it.
// Until then they look again when the directory changes, and every 200 ms, as a network file system tells of no
// changes.
//
// Blocking calls; any thread.
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

// What the environment says; checked, but nothing is looked up or opened.
struct AloneSettings {
  int rank = 0;
  int size = 1;
  std::string host;  // of tcp://: a name or an address; empty: file://
  std::uint16_t port = 0;
  std::string directory;    // of file://
  std::string secret_file;  // of tcp://
};

// nullopt: there is no MUSTER_RENDEZVOUS. INVALID_ARGUMENT names the variable and what it should hold.
base::Result<std::optional<AloneSettings>> read_alone_settings(const base::Environment& environment);

// Where the session host is, and what proves that it is the right one.
struct AlonePlace {
  std::string secret;                      // 32 bytes
  std::vector<base::IpAddress> addresses;  // of rank 0's host, the best first
  std::uint16_t port = 0;
};

// What rank 0 has published in a shared directory; taken back when this goes, unless another start has replaced it.
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
  std::string path_;  // empty: nothing
  std::string content_;
};

// Of rank 0. Connections to `listening` (non-blocking) are to be answered by a handshake with place.secret; those for
// the purpose kSession go to the SessionHost, which is given the same secret. `published` lives as long as ranks may
// come.
struct AloneHost {
  AlonePlace place;
  base::UniqueFd listening;
  Published published;
};
base::Result<AloneHost> open_alone(const AloneSettings& settings);

// Of the others: tries a place; an error is why it is not the right one. UNAVAILABLE and UNAUTHENTICATED are tried
// again.
using Reach = std::function<base::Result<base::UniqueFd>(const AlonePlace& place, std::chrono::milliseconds deadline)>;

struct AloneGuest {
  AlonePlace place;
  base::UniqueFd session;  // to rank 0, authenticated: for Session::connect
};
// Until rank 0 is reached. DEADLINE_EXCEEDED says what was missing last.
base::Result<AloneGuest> join_alone(const AloneSettings& settings, const Reach& reach,
                                    std::chrono::milliseconds deadline);

// Where ranks of other hosts reach the one whose session is this socket: at the end of that, but a name of rank 0's
// host may mean loopback on that host itself (Debian's 127.0.1.1). Only a literal is taken at its word.
base::Result<base::IpAddress> address_for_others(const AloneSettings& settings, int session);

// The Reach of a rank: TCP to each address in turn, then the handshake for the purpose kSession.
Reach reach_session_host(int rank);

}  // namespace muster::collectives::join
