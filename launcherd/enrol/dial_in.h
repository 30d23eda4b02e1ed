// Where the agents of `launcherd --accept-agents` come: a port, and the join file that opens it, which stays the same
// for the launcherd that comes next. Any thread.
//
// Who can read the join file can bring a host into launcherd's list and is then given this user's jobs: it is for its
// owner only (0600), as his ssh keys are.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/bootstrap/pump.h"
#include "launcherd/enrol/accept_agents.h"
#include "launcherd/enrol/dialled_agents.h"
#include "launcherd/enrol/enrolment_server.h"

namespace muster::launcherd::inline enrol {

struct DialInOptions {
  AcceptAgents at;       // its join_file is made if it is not there
  std::string build_id;  // of the agents
  // On threads of this object's:
  std::function<void(const std::string& line)> on_note;             // strangers, for --verbose
  std::function<void(const std::string& line)> on_refused;          // agents that were sent away
  std::function<void(const std::string& host, int slots)> on_come;  // its agent waits
  std::function<void(const std::string& host)> on_gone;             // its connection has ended
};

class DialIn {
 public:
  // UNAVAILABLE: the port is taken. DATA_LOSS: the join file is not one. PERMISSION_DENIED: it is another user's or not
  // closed to others, or other users may exchange files in its folder.
  static base::Result<std::shared_ptr<DialIn>> open(const base::Clock& clock, DialInOptions options);

  DialledAgents& agents() { return *agents_; }
  const std::string& join_file() const { return options_.at.join_file; }
  // The file is good for 30 days from now on, with this host's addresses of today.
  base::Status renew();

 private:
  DialIn(const base::Clock& clock, DialInOptions options) : clock_(clock), options_(std::move(options)) {}
  base::Status read_key();

  const base::Clock& clock_;
  const DialInOptions options_;
  std::string identity_;
  std::string token_;
  std::shared_ptr<DialledAgents> agents_;
  std::unique_ptr<EnrolmentServer> server_;
  Pump pump_;  // last: its thread uses all of the above
};

// Starts agents there: those that have come. Threads and lifetime: see bootstrap.h.
std::unique_ptr<Bootstrap> make_dial_in_bootstrap(const BootstrapOptions& options);

}  // namespace muster::launcherd::enrol
