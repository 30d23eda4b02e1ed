#include "model/torchrun_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/strings.h"

namespace muster::model {
namespace {

// torchrun's options without a value. All others take one.
constexpr auto kToggles =
    std::to_array<std::string_view>({"-m", "-h", "--module", "--no-python", "--run-path", "--standalone", "--use-env",
                                     "--virtual-local-rank", "--help"});
constexpr auto kOwnRendezvous =
    std::to_array<std::string_view>({"--standalone", "--rdzv-endpoint", "--master-addr", "--node-rank"});
constexpr auto kOwnVariables =
    std::to_array<std::string_view>({"PET_STANDALONE", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_NODE_RANK"});
constexpr std::size_t kShortOption = 2;  // "-r"

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool is_python(std::string_view word) {
  const std::string_view name = file_name(word);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

// Returns the number of leading words that name torchrun. 0 if they do not.
std::size_t launcher_words(const std::vector<std::string>& command) {
  if (!command.empty() && file_name(command[0]) == "torchrun") return 1;
  if (command.size() < 3 || !is_python(command[0])) return 0;
  const std::size_t at = command[1] == "-u" ? 2 : 1;
  if (at + 1 >= command.size() || command[at] != "-m") return 0;
  const std::string& module = command[at + 1];
  return module == "torch.distributed.run" || module == "muster.torchrun" ? at + 2 : 0;
}

}  // namespace

bool is_torchrun_command(const std::vector<std::string>& command) {
  std::size_t at = launcher_words(command);
  if (at == 0) return false;
  // Options end at the script, which is the first word that is neither an option nor the value of one.
  for (; at < command.size() && command[at].size() > 1 && command[at][0] == '-'; ++at) {
    std::string name = command[at].substr(0, command[at].find('='));
    std::ranges::replace(name, '_', '-');
    const bool is_long = name.starts_with("--");
    const bool has_value = is_long ? name.size() < command[at].size() : command[at].size() > kShortOption;
    if (is_one_of(kOwnRendezvous, name)) return false;
    const std::string value = has_value ? command[at].substr(std::min(name.size() + 1, command[at].size()))
                              : at + 1 < command.size() ? command[at + 1]
                                                        : "";
    if (name == "--rdzv-backend" && value != "c10d" && value != "muster") return false;
    if (!has_value && !is_one_of(kToggles, name)) ++at;
  }
  return at < command.size();
}

bool serves_torchrun(const JobSpec& job) {
  return job.roles.empty() && !job.torch_agent_store && !job.live && serves(job.runtime, Runtime::kTorch) &&
         is_torchrun_command(job.command);
}

bool has_own_rendezvous(const base::Environment& user_set) {
  return std::ranges::any_of(kOwnVariables, [&](std::string_view name) { return user_set.get(name).has_value(); });
}

}  // namespace muster::model
