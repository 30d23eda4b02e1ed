#include "launcherd/start/make_bootstrap.h"

#include <unistd.h>

#include "launcherd/enrol/dial_in.h"
#include "launcherd/site/site_bootstrap.h"
#include "launcherd/site/site_command.h"
#include "launcherd/ssh/ssh_bootstrap.h"
#include "launcherd/start/local_bootstrap.h"

namespace muster::launcherd::inline start {
namespace {

// True for "localhost" and loopback literals. If a user or port is given, the launcher logs in to reach the host.
bool is_this_host(const BootstrapTarget& target) {
  if (!target.user.empty() || target.port != 0) return false;
  if (target.name == "localhost") return true;
  const auto literal = base::IpAddress::parse(target.name);
  return literal.ok() && literal->is_loopback();
}

class RoutingBootstrap final : public Bootstrap {
 public:
  // `site` may be null.
  RoutingBootstrap(const BootstrapOptions& options, AgentImage image, std::unique_ptr<SiteBootstrap> site)
      : takes_all_(!options.only_allocation),
        allocation_(options.allocation),
        local_(options),
        ssh_(options, std::move(image), SshSurroundings::of_this_user()),
        site_(std::move(site)),
        dial_in_(options.dial_in),
        dialled_(dial_in_ != nullptr ? make_dial_in_bootstrap(options) : nullptr) {}

  void expect(const std::vector<BootstrapTarget>& targets) override {
    std::vector<BootstrapTarget> by_site;
    std::vector<BootstrapTarget> by_ssh;
    for (const BootstrapTarget& target : targets) {
      const Bootstrap* const chosen = &route(target);
      if (chosen == site_.get()) by_site.push_back(target);
      if (chosen == &ssh_) by_ssh.push_back(target);
    }
    ssh_.expect(by_ssh);
    if (site_ != nullptr) site_->expect(by_site);
  }
  void start(const BootstrapTarget& target, JoinSource join,
             std::function<void(base::Result<StartedAgent>)> done) override {
    route(target).start(target, std::move(join), std::move(done));
  }
  void run(const BootstrapTarget& target, std::vector<std::string> args,
           std::function<void(base::Result<CommandResult>)> done) override {
    route(target).run(target, std::move(args), std::move(done));
  }
  void cancel() override {
    local_.cancel();
    ssh_.cancel();
    if (site_ != nullptr) site_->cancel();
    if (dialled_ != nullptr) dialled_->cancel();
  }

 private:
  Bootstrap& route(const BootstrapTarget& target) {
    const bool is_plain = target.user.empty() && target.port == 0;
    if (dialled_ != nullptr && is_plain && dial_in_->agents().is_known(target.name)) return *dialled_;
    if (is_this_host(target)) return local_;
    const bool is_sites = takes_all_ || (target.user.empty() && target.port == 0 && allocation_.find(target.name));
    if (site_ != nullptr && is_sites) return *site_;
    return ssh_;
  }

  const bool takes_all_;
  const HostIndex allocation_;
  LocalBootstrap local_;
  SshBootstrap ssh_;
  std::unique_ptr<SiteBootstrap> site_;
  const std::shared_ptr<DialIn> dial_in_;
  std::unique_ptr<Bootstrap> dialled_;
};

}  // namespace

base::Result<std::unique_ptr<Bootstrap>> make_bootstrap(BootstrapOptions options) {
  MUSTER_ASSIGN_OR_RETURN(AgentImage image, AgentImage::open(options.agent_path));
  const auto paths = remote_paths(options.agent_dir, options.agent_id, image.machine(), "0");
  if (!paths.ok()) return paths.status();
  if (!options.identity_file.empty() && ::access(options.identity_file.c_str(), R_OK) != 0) {
    return base::errno_error(errno, fmt::format("-i {}: cannot read the key", options.identity_file));
  }
  std::unique_ptr<SiteBootstrap> site;
  if (options.by != BootstrapBy::kSsh && options.by != BootstrapBy::kAuto) {
    const SshSurroundings surroundings = SshSurroundings::of_this_user();
    MUSTER_ASSIGN_OR_RETURN(site, SiteBootstrap::make(options, image, {surroundings.home, surroundings.user}));
  }
  return std::unique_ptr<Bootstrap>(std::make_unique<RoutingBootstrap>(options, std::move(image), std::move(site)));
}

}  // namespace muster::launcherd::start
