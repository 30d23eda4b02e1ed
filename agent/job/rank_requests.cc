#include "agent/job/rank_requests.h"

#include "agent/launch/limits.h"
#include "model/rank_env.h"
#include "proto/convert.h"

namespace muster::agent::inline job {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

void set_all(const Variables& variables, base::Environment& environment) {
  for (const auto& [name, value] : variables) environment.set(name, value);
}

}  // namespace

std::vector<SpawnRequest> rank_requests(const v1::Launch& launch, const base::Environment& login,
                                        const Variables& stores) {
  // Drop rank variables of another launcher, such as those of a scheduler's step that sshd inherited. They do not
  // describe these ranks.
  base::Environment ground;
  for (const auto& [name, value] : login.entries()) {
    if (!model::is_rank_variable(name)) ground.set(name, value);
  }
  set_all(proto::environment_of(launch.environment()), ground);
  const std::vector<RlimitSetting> limits = merge_limits(default_limits(), proto::limits_of(launch));
  std::vector<SpawnRequest> requests;
  for (const v1::LaunchRank& rank : launch.ranks()) {
    SpawnRequest& request = requests.emplace_back();
    request.rank = rank.rank();
    const auto& command = rank.command().empty() ? launch.command() : rank.command();
    request.argv.assign(command.begin(), command.end());
    base::Environment environment = ground;
    set_all(proto::environment_of(rank.environment()), environment);
    set_all(stores, environment);
    request.workdir = rank.workdir().empty() ? launch.workdir() : rank.workdir();
    environment.set("PWD", request.workdir);  // the launcher's PWD may be another directory (--wdir)
    environment.unset("OLDPWD");
    request.env = environment.to_strings();
    request.umask = launch.umask();
    request.cpus.assign(rank.cpus().begin(), rank.cpus().end());
    request.limits = limits;
  }
  return requests;
}

}  // namespace muster::agent::job
