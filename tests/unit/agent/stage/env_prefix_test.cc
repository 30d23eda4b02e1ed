#include "agent/stage/env_prefix.h"

#include <gtest/gtest.h>

namespace muster::agent::env_prefix_test {
namespace {

const std::vector<std::string> kPrefixes = {"/home/alice/venv", "/data/venv"};

TEST(EnvPrefix, ReplacesWholePathsAndTheirBeginnings) {
  const auto moved = [](const std::string& text) { return with_prefix(text, kPrefixes, "/tmp/e"); };
  EXPECT_EQ(moved("#!/home/alice/venv/bin/python3\n"), "#!/tmp/e/bin/python3\n");
  EXPECT_EQ(moved("VIRTUAL_ENV=\"/home/alice/venv\"\nset /data/venv;"), "VIRTUAL_ENV=\"/tmp/e\"\nset /tmp/e;");
  EXPECT_EQ(moved("/home/alice/venv:/home/alice/venv/bin"), "/tmp/e:/tmp/e/bin");
  EXPECT_EQ(moved("/home/alice/venv"), "/tmp/e");
}

TEST(EnvPrefix, LeavesOtherPaths) {
  for (const std::string text : {"/home/alice/venv2/bin", "/home/alice/venv-old", "/mnt/home/alice/venv.bak",
                                 "/a/data/venv/bin", "nothing", ""}) {
    EXPECT_EQ(with_prefix(text, kPrefixes, "/tmp/e"), text);
  }
}

TEST(EnvPrefix, LeavesPrograms) {
  const std::string program(
      "\x7f"
      "ELF\0/home/alice/venv/lib",
      25);
  EXPECT_EQ(with_prefix(program, kPrefixes, "/tmp/e"), program);
}

TEST(EnvPrefix, MovesTargetsWithinTheEnvironment) {
  EXPECT_EQ(moved_target("/home/alice/venv/lib/a", kPrefixes, "/tmp/e"), "/tmp/e/lib/a");
  EXPECT_EQ(moved_target("/data/venv", kPrefixes, "/tmp/e"), "/tmp/e");
  EXPECT_EQ(moved_target("/data/venv2", kPrefixes, "/tmp/e"), "/data/venv2");
  EXPECT_EQ(moved_target("../../etc/passwd", kPrefixes, "/tmp/e"), "../../etc/passwd");
}

TEST(EnvPrefix, KnowsTheFilesThatNameIt) {
  for (const char* const path : {"bin/tool", "bin/activate.fish", "lib/python3.11/site-packages/a.pth",
                                 "share/jupyter/kernels/python3/kernel.json", "lib/pkgconfig/z.pc"}) {
    EXPECT_TRUE(may_name_prefix(path)) << path;
  }
  for (const char* const path : {"pyvenv.cfg", "bin/sub/tool", "lib/python3.11/os.py", "sbin/tool"}) {
    EXPECT_FALSE(may_name_prefix(path)) << path;
  }
}

}  // namespace
}  // namespace muster::agent::env_prefix_test
