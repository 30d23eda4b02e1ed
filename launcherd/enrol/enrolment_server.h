// EnrolmentServer is the port at which agents enrol. A site's launcher started these agents, or they dial in by
// themselves. The agent proves by TLS 1.3 that it has a join file's key. Then it sends its host's names. Then the
// connection carries that host's stream (enrolment_seats.h).
// Thread: all work runs on the pump's thread until the pump ends.
//
// A peer without the key fails in the handshake, and only --verbose reports it. The server limits the number and the
// time of unproven connections. Above the limit it closes the oldest one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "launcherd/bootstrap/pump.h"
#include "launcherd/enrol/enrolment_seats.h"

namespace muster::launcherd::inline enrol {

struct EnrolmentOptions {
  std::string build_id;                    // the build id that agents must have
  std::optional<base::IpAddress> address;  // where to listen; nullopt means all addresses
  std::uint16_t port = 0;                  // 0 means any free port
  std::size_t max_unproven = 512;
  std::chrono::milliseconds proof_time{10'000};
  // End a connection whose peer is silent for this long. 0 means the system's default.
  std::chrono::seconds keep_alive{0};
  std::function<void(const std::string& line)> on_note;  // peers without the key, for --verbose; on the pump's thread
  // Reports peers that had the key but were refused; on the pump's thread.
  std::function<void(const std::string& line)> on_refused;
};

class EnrolmentServer {
 public:
  // `pump` is borrowed. UNAVAILABLE: another program uses the port.
  static base::Result<std::unique_ptr<EnrolmentServer>> start(Pump& pump, EnrolmentOptions options);

  std::uint16_t port() const { return port_; }

  // Any thread. From now on agents with this join file's key can get these seats. `on_enrolled` runs for each enrolled
  // agent.
  base::Status open(const std::string& identity, const std::string& token, std::shared_ptr<EnrolmentSeats> seats,
                    std::function<void(const std::string& host)> on_enrolled);
  // Afterwards no agent can enrol by this key. Enrolled agents stay connected.
  void close(const std::string& identity);

 private:
  struct State;
  class Newcomer;
  class Listener;
  EnrolmentServer() = default;

  std::uint16_t port_ = 0;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd::enrol
