// muster: one program for what is not an hvdrun. A verb is a row here and a file of its own.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/build_id.h"
#include "base/strings.h"
#include "cli/help.h"
#include "cli/run_job.h"
#include "cli/torchrun.h"

namespace muster::cli {
namespace {

using Words = std::vector<std::string>;

constexpr int kUsageError = 2;

struct Verb {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::string& name, const Words& arguments);
};

int run_torchrun(const std::string& name, const Words& arguments) {
  return run_command([&](const base::Environment& environment) {
    return parse_torchrun(name, arguments, environment, {.build_id = base::build_id()});
  });
}

constexpr std::array<Verb, 2> kVerbs = {
    {{"torchrun", "run a torch program on all hosts; takes torchrun's command lines", run_torchrun},
     {"torch.distributed.launch", "the same with --local_rank=N as the script's first argument", run_torchrun}}};

std::string usage() {
  std::string text = "Usage: muster VERB [options]\n\nVerbs (muster VERB --help tells more):\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<26}{}\n", verb.name, verb.summary);
  return text + "\nJobs of other programs start with hvdrun.\n";
}

int fail(const std::string& message) {
  fmt::print(stderr, "muster: {}\n", message);
  return kUsageError;
}

int muster_main(const Words& words) {
  if (words.empty()) return fail("a verb is missing: muster --help lists them");
  const std::string& name = words.front();
  if (name == "-h" || name == "--help" || name == "help") {
    fmt::print("{}", usage());
    return 0;
  }
  if (name == "-v" || name == "--version") {
    fmt::print("{}", version_text("muster", base::build_id()));
    return 0;
  }
  const auto* verb = std::ranges::find(kVerbs, name, &Verb::name);
  if (verb != kVerbs.end()) return verb->run(name, {words.begin() + 1, words.end()});
  Words known;
  for (const Verb& each : kVerbs) known.emplace_back(each.name);
  const auto nearest = base::nearest_word(name, known);
  return fail(fmt::format("unknown verb {}{} (muster --help lists them)", base::printable(name),
                          nearest ? fmt::format(", did you mean {}?", *nearest) : ""));
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  return muster::cli::muster_main({argv + 1, argv + argc});
}
