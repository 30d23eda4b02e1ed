#include "cli/view/rank_console.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/net.h"

namespace muster::cli::rank_console_test {
namespace {

using proto::OutputStream;

// A terminal for stderr, and a pipe for stdout.
class RankConsoleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pipe = base::make_pipe();
    ASSERT_TRUE(pipe.ok());
    pipe_ = std::move(*pipe);
    master_.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(master_.valid());
    ASSERT_EQ(::grantpt(master_.get()), 0);
    ASSERT_EQ(::unlockpt(master_.get()), 0);
    line_.reset(::open(::ptsname(master_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(line_.valid());
    terminals_ = std::make_unique<launcherd::Terminals>(pipe_.second.get(), line_.get());
  }
  std::unique_ptr<RankConsole> open(Fold fold, const model::LabelFormat& label = {}) {
    auto console = RankConsole::open(*terminals_, clock_, {.label = label}, fold);
    EXPECT_TRUE(console.ok());
    (*console)->set_ranks(first_ranks(2));
    return std::move(*console);
  }
  static std::string read_some(int fd) {
    std::string text(4096, '\0');
    const ssize_t size = ::read(fd, text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }

  base::SystemClock clock_;
  base::FdPair pipe_;
  base::UniqueFd master_;
  base::UniqueFd line_;
  std::unique_ptr<launcherd::Terminals> terminals_;
};

TEST_F(RankConsoleTest, FoldsTheStreamThatIsATerminal) {
  const auto console = open(Fold::kAuto);
  EXPECT_TRUE(console->folds());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(console->sink()->write(rank, OutputStream::kStdout, "a\n", 0).ok());
    EXPECT_TRUE(console->sink()->write(rank, OutputStream::kStderr, "b\n", 0).ok());
  }
  EXPECT_TRUE(console->finish_blocking(base::monotonic_now() + std::chrono::seconds(30)));
  EXPECT_EQ(read_some(pipe_.first.get()), "[0]<stdout>:a\n[1]<stdout>:a\n");
  EXPECT_EQ(read_some(master_.get()), "[0-1]<stderr>:b\r\n");
}

TEST_F(RankConsoleTest, FoldsNothingWithoutRanksInTheLabelOrIfOff) {
  auto label = model::LabelFormat::parse("{stream}");
  ASSERT_TRUE(label.ok());
  EXPECT_FALSE(open(Fold::kAuto, *label)->folds());
  EXPECT_TRUE(open(Fold::kOn, *label)->folds());
  EXPECT_FALSE(open(Fold::kOff)->folds());
  EXPECT_TRUE(open(Fold::kOff)->finish_blocking({}));
}

TEST_F(RankConsoleTest, NumbersFoldsAPipeToo) {
  const auto console = open(Fold::kNumbers);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(console->sink()->write(rank, OutputStream::kStdout, fmt::format("loss {}\n", rank), 0).ok());
  }
  EXPECT_TRUE(console->sink()->flush().ok());
  EXPECT_EQ(read_some(pipe_.first.get()), "[0-1]<stdout>:loss 0\n");
}

TEST(FirstRanks, CountsFromZero) {
  EXPECT_EQ(first_ranks(3), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(first_ranks(0).empty());
  EXPECT_TRUE(first_ranks(-1).empty());
}

}  // namespace
}  // namespace muster::cli::rank_console_test
