// Output as py-spy writes it, and scripts as stand-ins for py-spy. No py-spy takes part.
#include "agent/evidence/py_spy.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::py_spy_test {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kOutput = R"([
  {"pid": 42, "thread_id": 1, "thread_name": "Thread-1", "os_thread_id": 43, "active": false, "owns_gil": false,
   "frames": [{"name": "work", "filename": "w.py", "module": null, "short_filename": "w.py", "line": 1}]},
  {"pid": 42, "thread_id": 2, "thread_name": "MainThread", "os_thread_id": 42, "active": true, "owns_gil": true,
   "frames": [{"name": "load", "filename": "/x/data.py", "line": 88, "locals": null, "is_entry": true},
              {"name": "<module>", "filename": "/x/train.py", "line": -3}]}])";

TEST(PySpy, ParsesTheMainThread) {
  const auto frames = parse_py_spy(kOutput, 42);
  ASSERT_TRUE(frames.ok()) << frames.status();
  ASSERT_EQ(frames->size(), 2U);
  EXPECT_EQ((*frames)[0], (PythonFrame{.function = "load", .file = "/x/data.py", .line = 88}));
  EXPECT_EQ((*frames)[1], (PythonFrame{.function = "<module>", .file = "/x/train.py", .line = 0}));
  const auto by_name = parse_py_spy(
      R"([{"thread_name": "MainThread", "os_thread_id": null, "frames": [{"name": "f", "filename": "x", "line": 1}]}])",
      42);
  ASSERT_TRUE(by_name.ok()) << by_name.status();
  EXPECT_EQ(by_name->at(0).function, "f");
}

TEST(PySpy, RefusesOtherOutput) {
  for (const char* bad : {"", "{}", "[]", "[1]", R"([{"os_thread_id": 7, "frames": [{"name": "f"}]}])",
                          R"([{"os_thread_id": 42, "frames": []}])"}) {
    EXPECT_FALSE(parse_py_spy(bad, 42).ok()) << bad;
  }
}

class PySpyProgramTest : public ::testing::Test {
 protected:
  std::string program(const std::string& script) {
    const std::string path = dir_.write("py-spy", "#!/bin/sh\n" + script);
    ::chmod(path.c_str(), 0700);
    return path;
  }

  const testing_support::TempDir dir_;
};

TEST_F(PySpyProgramTest, IsFoundInAPath) {
  const std::string path = program("");
  EXPECT_EQ(find_in_path("py-spy", ".::/nowhere:" + dir_.path() + ":/usr/bin"), path);
  EXPECT_EQ(find_in_path("py-spy", "/nowhere"), "");
  EXPECT_EQ(find_in_path("py-spy", ""), "");
  dir_.write("other", "");
  EXPECT_EQ(find_in_path("other", dir_.path()), "") << "it is not executable";
}

TEST_F(PySpyProgramTest, IsAskedForOneProcess) {
  const std::string path = program("[ \"$*\" = 'dump --json --nonblocking --pid 42' ] || exit 3\ncat <<'E'\n" +
                                   std::string(kOutput) + "\nE\n");
  const auto frames = ask_py_spy(path, 42, std::chrono::steady_clock::now() + 20s);
  ASSERT_TRUE(frames.ok()) << frames.status();
  EXPECT_EQ(frames->at(0).function, "load");
}

TEST_F(PySpyProgramTest, MayFailOrHang) {
  const auto soon = [] { return std::chrono::steady_clock::now() + 20s; };
  EXPECT_EQ(ask_py_spy(program("echo Permission denied >&2; exit 1"), 42, soon()).status().code(),
            base::Code::kUnavailable);
  EXPECT_EQ(ask_py_spy("/nowhere/py-spy", 42, soon()).status().code(), base::Code::kUnavailable);
  EXPECT_EQ(ask_py_spy(program("exec sleep 1000"), 42, std::chrono::steady_clock::now() + 50ms).status().code(),
            base::Code::kDeadlineExceeded);
  EXPECT_EQ(ask_py_spy(program("exec cat /dev/zero"), 42, soon()).status().code(), base::Code::kResourceExhausted);
}

}  // namespace
}  // namespace muster::agent::py_spy_test
