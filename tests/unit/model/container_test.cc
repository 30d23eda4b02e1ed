#include "model/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::container_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitWords, AsAShellCutsThem) {
  const auto words = [](std::string_view text) { return *split_words(text); };
  EXPECT_THAT(words(""), IsEmpty());
  EXPECT_THAT(words("  \n"), IsEmpty());
  EXPECT_THAT(words("--cleanenv  -B /a:/b "), ElementsAre("--cleanenv", "-B", "/a:/b"));
  EXPECT_THAT(words("--env 'A=b c' \"d 'e'\" f\\ g ''"), ElementsAre("--env", "A=b c", "d 'e'", "f g", ""));
  EXPECT_THAT(words("$(id) `id` ;rm *"), ElementsAre("$(id)", "`id`", ";rm", "*"));  // nothing is run or expanded
  EXPECT_THAT(words("a\\"), ElementsAre("a\\"));
  EXPECT_THAT(words("'a\\'"), ElementsAre("a\\"));
  EXPECT_EQ(split_words("a 'b").status().message(), "a ' is not closed");
  EXPECT_EQ(split_words("\"").status().message(), "a \" is not closed");
}

TEST(ContainerCommand, ProgramBindsDirectoryOptionsImageCommand) {
  const Container container{.image = "train.sif", .args = {"--cleanenv"}};
  EXPECT_THAT(container_command(container, "/usr/bin/apptainer", {"/work", "/tmp/muster-1/job"}, "/work",
                                {"python3", "a b.py", "--nv"}),
              ElementsAre("/usr/bin/apptainer", "exec", "--bind", "/work", "--bind", "/tmp/muster-1/job", "--pwd",
                          "/work", "--cleanenv", "train.sif", "python3", "a b.py", "--nv"));
  EXPECT_THAT(container_command({.image = "i"}, "/p", {}, "", {"c"}), ElementsAre("/p", "exec", "i", "c"));
}

TEST(OnHost, GpusOfTheHost) {
  NodeShape node;
  const Container container{.image = "i", .args = {"-e"}};
  EXPECT_THAT(on_host(container, node).args, ElementsAre("-e"));
  node.gpus = {{.vendor = GpuVendor::kIntel}};
  EXPECT_THAT(on_host(container, node).args, ElementsAre("-e"));
  node.gpus = {{.vendor = GpuVendor::kNvidia}, {.vendor = GpuVendor::kAmd}};
  EXPECT_THAT(on_host(container, node).args, ElementsAre("--nv", "--rocm", "-e"));
  EXPECT_THAT(
      on_host({.image = "i", .args = {"--nv"}}, {.cores = {}, .memory_mib = 0, .gpus = {{}}, .gpu_masks = {}}).args,
      ElementsAre("--nv"));  // the user's own word is enough
}

TEST(ContainerVariables, ReachTheProgramWhateverTheImageSays) {
  std::vector<std::string> environment = {"A=1=2", "B=x", "SINGULARITYENV_B=mine", "OTHER=o"};
  add_container_variables({"A", "B", "MISSING"}, environment);
  EXPECT_THAT(environment, ElementsAre("A=1=2", "B=x", "SINGULARITYENV_B=mine", "OTHER=o", "APPTAINERENV_A=1=2",
                                       "SINGULARITYENV_A=1=2", "APPTAINERENV_B=x"));
}

}  // namespace
}  // namespace muster::model::container_test
