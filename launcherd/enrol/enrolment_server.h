// Where agents enrol that a site's launcher has started: TLS 1.3 by the key of a join file, then the host's names, then
// the connection is that host's stream (enrolment_seats.h). Everything happens on the pump's thread, until that ends.
//
// A stranger gets no further than the handshake: nobody is told, but --verbose. Unproven connections are limited in
// number (the oldest one goes) and time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "launcherd/bootstrap/pump.h"
#include "launcherd/enrol/enrolment_seats.h"

namespace muster::launcherd::inline enrol {

struct EnrolmentOptions {
  std::string build_id;                    // of the agents
  std::optional<base::IpAddress> address;  // to listen at; without: all addresses
  std::uint16_t port = 0;                  // 0: any
  std::size_t max_unproven = 512;
  std::chrono::milliseconds proof_time{10'000};
  // A connection whose other end is silent for so long has ended; 0: when the system says so.
  std::chrono::seconds keep_alive{0};
  std::function<void(const std::string& line)> on_note;     // strangers, for --verbose; pump's thread
  std::function<void(const std::string& line)> on_refused;  // who knew the key and was sent away; pump's thread
};

class EnrolmentServer {
 public:
  // `pump` is borrowed. UNAVAILABLE: the port is taken.
  static base::Result<std::unique_ptr<EnrolmentServer>> start(Pump& pump, EnrolmentOptions options);

  std::uint16_t port() const { return port_; }

  // Any thread. From here on the key that a join file holds opens these seats. `on_enrolled` after each.
  base::Status open(const std::string& identity, const std::string& token, std::shared_ptr<EnrolmentSeats> seats,
                    std::function<void(const std::string& host)> on_enrolled);
  // Nobody else enrols by it; who has stays.
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
