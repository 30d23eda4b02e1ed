// SiteBootstrap starts agents without ssh: by the site's launcher (srun, aprun, mpiexec, pbsdsh, flux, jsrun), by a
// command of the user, or by the user's hand. The agents then connect to us by a join file. All hosts that are expected
// together form one wave. A wave has one join file and, if possible, one run of the site's launcher.
// Thread, owner: see bootstrap.h, with one difference. A program whose agents outlive their streams is not ended,
// because warm agents of launcherd outlive their streams while they have jobs.
//
// The agent program is stored in the agents' folder of this host. All hosts must share that folder.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launcherd/bootstrap/agent_image.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/worker_pool.h"
#include "launcherd/enrol/enrolment_server.h"
#include "launcherd/enrol/enrolment_wave.h"
#include "launcherd/enrol/site_files.h"
#include "launcherd/site/site_command.h"

namespace muster::launcherd::inline site {

// The user who owns the agents.
struct SiteUser {
  std::string home;
  std::string name;
};

class SiteBootstrap final : public Bootstrap {
 public:
  // INVALID_ARGUMENT if the options cannot work for any host.
  static base::Result<std::unique_ptr<SiteBootstrap>> make(const BootstrapOptions& options, AgentImage image,
                                                           SiteUser user);
  ~SiteBootstrap() override;

  void expect(const std::vector<BootstrapTarget>& targets) override;
  void start(const BootstrapTarget& target, JoinSource join,
             std::function<void(base::Result<StartedAgent>)> done) override;
  void run(const BootstrapTarget& target, std::vector<std::string> args,
           std::function<void(base::Result<CommandResult>)> done) override;
  void cancel() override;

 private:
  struct Wave;
  struct Seat {
    std::shared_ptr<Wave> wave;
    std::size_t index = 0;
  };

  SiteBootstrap(BootstrapOptions options, AgentImage image, SiteLauncher launcher, SiteUser user,
                std::string directory);
  base::Result<Seat> claim(const BootstrapTarget& target);
  void launch(const std::shared_ptr<Wave>& wave);
  base::Status try_to_launch(const std::shared_ptr<Wave>& wave);
  base::Result<EnrolmentServer*> server();
  base::Result<SiteAgent> write_files(const std::shared_ptr<Wave>& wave, std::uint16_t port);
  base::Status start_command(const std::shared_ptr<Wave>& wave, const SiteCommand& command);
  void command_ended(const std::shared_ptr<Wave>& wave, const SiteCommand& command, int exit_status,
                     const std::string& last_lines);
  void seat_settled(const std::shared_ptr<Wave>& wave);
  base::Result<StartedAgent> await_agent(const Seat& seat, const JoinSource& join);
  base::Status fail_seat(const Seat& seat, const base::Status& waited);
  base::Result<CommandResult> run_there(const BootstrapTarget& target, std::vector<std::string> args);
  std::string label(const SiteCommand& command, const std::vector<BootstrapTarget>& targets) const;
  void report(const std::string& label, const std::string& line) const;
  void note(const std::string& label, const std::string& line) const;

  const BootstrapOptions options_;
  const AgentImage image_;
  const SiteLauncher launcher_;
  const SiteUser user_;
  const std::string directory_;  // folder of the agent program on all hosts
  CancelSource cancel_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Wave>> waves_;              // waves with unsettled seats; guarded by mutex_
  std::multimap<std::string, base::Result<Seat>> seats_;  // unclaimed seats by host name; guarded by mutex_
  std::unique_ptr<EnrolmentServer> server_;               // guarded by mutex_; created for the first wave
  Pump pump_;
  WorkerPool workers_;  // last, because its threads use all members above
};

}  // namespace muster::launcherd::site
