#include "agent/launch/program.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::program_test {
namespace {

namespace fs = std::filesystem;

class ProgramTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) const {
    dir_.write(name, content);
    return "./" + name;
  }
  std::string explain(const std::string& name, int errno_value, int exit_code = 126) const {
    SpawnRequest request;
    request.argv = {name};
    request.workdir = path_;
    // The first candidate of a name without a slash is in PATH.
    const std::string candidate = name.find('/') == std::string::npos ? "/usr/local/bin/" + name : name;
    const ExecFailure failure = explain_exec_failure(request, name.empty() ? name : candidate, errno_value);
    EXPECT_EQ(failure.exit_code, exit_code);
    return failure.message;
  }

  testing_support::TempDir dir_;
  const std::string& path_ = dir_.path();
};

TEST(ProgramCandidatesTest, FollowsThePathOfTheRank) {
  using List = std::vector<std::string>;
  EXPECT_EQ(program_candidates("x", {"A=1", "PATH=/a:/b"}), (List{"/a/x", "/b/x"}));
  EXPECT_EQ(program_candidates("x", {"PATH=:/b:"}), (List{"./x", "/b/x", "./x"}));
  EXPECT_EQ(program_candidates("./x", {"PATH=/a"}), (List{"./x"}));
  EXPECT_EQ(program_candidates("x", {}), (List{"/usr/local/bin/x", "/usr/bin/x", "/bin/x"}));
  EXPECT_TRUE(program_candidates("", {}).empty());
}

TEST_F(ProgramTest, MissingFiles) {
  EXPECT_EQ(explain("./x", ENOENT, 127), "cannot run './x': no such file in " + path_);
  EXPECT_EQ(explain("/nowhere/x", ENOENT, 127), "cannot run '/nowhere/x': no such file");
  EXPECT_EQ(explain("x", ENOENT, 127), "cannot run 'x': not found in PATH (/usr/local/bin:/usr/bin:/bin)");
  EXPECT_EQ(explain("", ENOENT, 127), "cannot run '': the command is empty");
}

TEST_F(ProgramTest, SuggestsAFileOfTheWorkingDirectory) {
  const std::string where = "not found in PATH, but it is in " + path_;
  file("train.py", "import os\n");
  EXPECT_EQ(explain("train.py", ENOENT, 127), "cannot run 'train.py': " + where + ": use python3 train.py");
  file("run", "#!/usr/bin/env python3\n");
  fs::permissions(path_ + "/run", fs::perms(0644));
  EXPECT_EQ(explain("run", ENOENT, 127), "cannot run 'run': " + where + ": use python3 run");
  fs::permissions(path_ + "/run", fs::perms(0755));
  EXPECT_EQ(explain("run", ENOENT, 127), "cannot run 'run': " + where + ": use python3 run or ./run");
  file("go.sh", "#!/bin/sh\n");
  fs::permissions(path_ + "/go.sh", fs::perms(0644));
  EXPECT_EQ(explain("go.sh", ENOENT, 127),
            "cannot run 'go.sh': " + where + " and not executable: chmod +x it, then use ./go.sh");
  fs::permissions(path_ + "/go.sh", fs::perms(0755));
  EXPECT_EQ(explain("go.sh", ENOENT, 127), "cannot run 'go.sh': " + where + ": use ./go.sh");
}

TEST_F(ProgramTest, SuggestsPython3ForPython) {
  file("bin/python3", "");
  fs::permissions(path_ + "/bin/python3", fs::perms(0755));
  SpawnRequest request;
  request.argv = {"python", "train.py"};
  request.workdir = path_;
  request.env = {"PATH=" + path_ + "/bin"};
  EXPECT_EQ(explain_exec_failure(request, path_ + "/bin/python", ENOENT).message,
            "cannot run 'python': not found in PATH, but python3 is: use python3");
  request.env = {"PATH=" + path_};
  EXPECT_EQ(explain_exec_failure(request, path_ + "/python", ENOENT).message,
            "cannot run 'python': not found in PATH (" + path_ + ")");
}

TEST_F(ProgramTest, PythonScriptsNeedPython) {
  const std::string plain = file("a.py", "import os\n");
  fs::permissions(path_ + "/a.py", fs::perms(0644));
  EXPECT_EQ(explain(plain, EACCES), "cannot run './a.py': it is not executable (mode 0644): use python3 ./a.py");
  EXPECT_EQ(explain(plain, ENOEXEC),
            "cannot run './a.py': it has no first line such as #!/usr/bin/env python3: use python3 ./a.py");
  const std::string script = file("b", "#!/usr/bin/env python3\n");
  fs::permissions(path_ + "/b", fs::perms(0644));
  EXPECT_EQ(explain(script, EACCES),
            "cannot run './b': it is not executable (mode 0644): chmod +x it, or use python3 ./b");
  SpawnRequest request;
  request.workdir = path_;
  EXPECT_FALSE(is_shell_text(request, plain));
}

TEST_F(ProgramTest, ALongPathIsNotAllSaid) {
  SpawnRequest request;
  request.argv = {"x"};
  request.env = {"PATH=" + std::string(100'000, '/')};
  request.workdir = path_;
  EXPECT_LT(explain_exec_failure(request, "x", ENOENT).message.size(), 1100U);
}

TEST_F(ProgramTest, MissingInterpreters) {
  EXPECT_EQ(explain(file("s", "#! /nowhere/python -u\nx\n"), ENOENT),
            "cannot run './s': its interpreter '/nowhere/python' (first line of the file) does not exist");
  EXPECT_EQ(explain(file("w", "#!/bin/sh\r\nx\r\n"), ENOENT),
            "cannot run './w': its first line ends with a carriage return (Windows line ends; dos2unix removes them)");
}

TEST_F(ProgramTest, NotExecutable) {
  const std::string plain = file("p", "x");
  fs::permissions(path_ + "/p", fs::perms(0644));
  EXPECT_EQ(explain(plain, EACCES), "cannot run './p': it is not executable (mode 0644; chmod +x makes it so)");
  EXPECT_EQ(explain(path_, EACCES), "cannot run '" + path_ + "': it is a directory");
}

TEST_F(ProgramTest, NotForThisHost) {
  std::ifstream own("/proc/self/exe", std::ios::binary);
  std::string head(4096, '\0');
  own.read(head.data(), static_cast<std::streamsize>(head.size()));
  head[18] = static_cast<char>(243);  // e_machine: RISC-V
  head[19] = 0;
  const std::string text = explain(file("e", head), ENOEXEC);
  EXPECT_EQ(text.rfind("cannot run './e': it is a program for riscv, but this host is ", 0), 0U) << text;
  EXPECT_EQ(explain(file("z", std::string("\0\1\2", 3)), ENOEXEC),
            "cannot run './z': it is neither a program nor a script");
  EXPECT_EQ(explain(file("d", "\177ELF"), ENOEXEC), "cannot run './d': it is a damaged program");
}

TEST_F(ProgramTest, ShellTextIsTextWithoutAnInterpreterLine) {
  SpawnRequest request;
  request.workdir = path_;
  EXPECT_TRUE(is_shell_text(request, file("a", "echo hello\n")));
  EXPECT_FALSE(is_shell_text(request, file("b", "#!/bin/sh\n")));
  EXPECT_FALSE(is_shell_text(request, file("c", std::string("a\0b\n", 4))));
}

TEST_F(ProgramTest, NamesArePrintable) {
  EXPECT_EQ(explain("./a\x1b[31m", ENOENT, 127).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace muster::agent::program_test
