#include "cli/hosts/site_choice.h"

#include <set>

#include <gtest/gtest.h>

namespace muster::cli::site_choice_test {
namespace {

using launcherd::BootstrapBy;

BootstrapBy choose(const std::string& scheduler, const std::string& source, const std::set<std::string>& programs,
                   bool is_slurm_job = true) {
  base::Environment environment;
  if (is_slurm_job) environment.set("SLURM_JOB_ID", "7");
  std::optional<launcherd::Allocation> allocation;
  if (!scheduler.empty()) allocation = launcherd::Allocation{scheduler, source, {{.name = "n1"}}};
  const auto has = [&programs](const std::string& name) { return programs.contains(name); };
  return choose_site_launcher(environment, allocation, has).by;
}

TEST(SiteChoiceTest, SrunInSlurmAprunOnACrayElseSsh) {
  EXPECT_EQ(choose("", "", {"srun", "aprun", "mpiexec"}), BootstrapBy::kSsh);
  EXPECT_EQ(choose("Slurm", "SLURM_JOB_NODELIST", {"srun"}), BootstrapBy::kSrun);
  EXPECT_EQ(choose("Slurm", "SLURM_JOB_NODELIST", {}), BootstrapBy::kSsh);
  EXPECT_EQ(choose("Slurm", "SLURM_JOB_NODELIST", {"srun"}, false), BootstrapBy::kSsh);
  EXPECT_EQ(choose("Cobalt", "COBALT_PARTNAME", {"aprun"}), BootstrapBy::kAprun);
  EXPECT_EQ(choose("Cobalt", "COBALT_PARTNAME", {"srun"}), BootstrapBy::kSsh);
  EXPECT_EQ(choose("Cobalt", "COBALT_NODEFILE /var/x", {"aprun"}), BootstrapBy::kSsh);
  EXPECT_EQ(choose("PBS", "PBS_NODEFILE /var/x", {"mpiexec", "pbsdsh", "aprun"}), BootstrapBy::kSsh);
}

TEST(SiteChoiceTest, ABadTemplateIsAMistakeOfTheCommandLine) {
  launcherd::BootstrapOptions bootstrap;
  bootstrap.by = BootstrapBy::kCommand;
  bootstrap.command = "rsh {host}";
  EXPECT_EQ(settle_bootstrap(bootstrap, {}).status().code(), base::Code::kInvalidArgument);
  bootstrap.command = "rsh {host} {cmd}";
  EXPECT_TRUE(settle_bootstrap(bootstrap, {}).ok());
}

}  // namespace
}  // namespace muster::cli::site_choice_test
