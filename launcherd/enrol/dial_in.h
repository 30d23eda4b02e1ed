// DialIn serves `launcherd --accept-agents`: a port at which agents connect, and the join file that lets them in. The
// join file stays the same when launcherd restarts.
// Thread: any.
//
// Security: a user who can read the join file can add a host to launcherd's list. That host then receives jobs of
// launcherd's user. So only the file's owner may read it (0600), like the owner's ssh keys.
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
  AcceptAgents at;       // the port and join file; the join file is created if it does not exist
  std::string build_id;  // the build id that agents must have
  // Threads of this object call the functions below.
  std::function<void(const std::string& line)> on_note;     // connections without the key, for --verbose
  std::function<void(const std::string& line)> on_refused;  // agents that were refused
  // An agent has connected, and its stream waits for a caller.
  std::function<void(const std::string& host, int slots)> on_join;
  std::function<void(const std::string& host)> on_gone;  // the connection of the host's agent has ended
};

class DialIn {
 public:
  // Errors:
  //   UNAVAILABLE        another program uses the port
  //   DATA_LOSS          the join file is damaged
  //   PERMISSION_DENIED  the join file belongs to another user or is open to others, or other users may replace
  //                      files in its folder
  static base::Result<std::shared_ptr<DialIn>> open(const base::Clock& clock, DialInOptions options);

  DialledAgents& agents() { return *agents_; }
  const std::string& join_file() const { return options_.at.join_file; }
  // Extends the join file's life to 30 days from now, and lists this host's current addresses in it.
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
  Pump pump_;  // last, because its thread uses all members above
};

// Returns a bootstrap that uses the agents which have dialled in at options.dial_in. Thread, owner: see bootstrap.h.
std::unique_ptr<Bootstrap> make_dial_in_bootstrap(const BootstrapOptions& options);

}  // namespace muster::launcherd::enrol
