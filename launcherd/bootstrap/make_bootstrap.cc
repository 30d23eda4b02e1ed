#include <unistd.h>

#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/bootstrap/local_bootstrap.h"
#include "launcherd/bootstrap/ssh_bootstrap.h"

namespace muster::launcherd {
namespace {

// "localhost" and loopback literals, unless the user or port is given: then it is a log-in.
bool is_this_host(const BootstrapTarget& target) {
  if (!target.user.empty() || target.port != 0) return false;
  if (target.name == "localhost") return true;
  const auto literal = base::IpAddress::parse(target.name);
  return literal.ok() && literal->is_loopback();
}

class RoutingBootstrap final : public Bootstrap {
 public:
  RoutingBootstrap(const BootstrapOptions& options, AgentImage image)
      : local_(options), ssh_(options, std::move(image), SshSurroundings::of_this_user()) {}

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
  }

 private:
  Bootstrap& route(const BootstrapTarget& target) {
    if (is_this_host(target)) return local_;
    return ssh_;
  }

  LocalBootstrap local_;
  SshBootstrap ssh_;
};

}  // namespace

JoinSource ready_join(std::string join) {
  std::promise<base::Result<std::string>> promise;
  promise.set_value(std::move(join));
  return promise.get_future().share();
}

base::Result<std::unique_ptr<Bootstrap>> make_bootstrap(BootstrapOptions options) {
  MUSTER_ASSIGN_OR_RETURN(AgentImage image, AgentImage::open(options.agent_path));
  const auto paths = remote_paths(options.agent_dir, options.agent_id, image.machine(), "0");
  if (!paths.ok()) return paths.status();
  if (!options.identity_file.empty() && ::access(options.identity_file.c_str(), R_OK) != 0) {
    return base::errno_error(errno, fmt::format("-i {}: cannot read the key", options.identity_file));
  }
  return std::unique_ptr<Bootstrap>(std::make_unique<RoutingBootstrap>(options, std::move(image)));
}

}  // namespace muster::launcherd
