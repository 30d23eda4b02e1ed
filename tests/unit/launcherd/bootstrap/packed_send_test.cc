// Plays a host's side of the steps, without ssh.
#include "launcherd/bootstrap/packed_send.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::packed_send_test {
namespace {

using ::testing::HasSubstr;

// Prints one text after another. A text with a count waits until so many bytes of input have arrived.
class PlayedHost final : public RemoteProgram {
 public:
  struct Turn {
    std::string output;
    std::string errors = {};
    std::size_t after = 0;  // bytes of input
  };
  explicit PlayedHost(std::deque<Turn> turns, int exit_status = 1)
      : turns_(std::move(turns)), exit_status_(exit_status) {}

  Failure exchange(std::string_view& input, std::string& output, std::string& errors, const Waiter&) override {
    received.append(input.substr(0, 5));
    input.remove_prefix(std::min<std::size_t>(5, input.size()));
    if (turns_.empty()) {
      has_ended_ = true;
    } else if (received.size() >= turns_.front().after) {
      output += turns_.front().output;
      errors += turns_.front().errors;
      turns_.pop_front();
    }
    return {};
  }
  Failure close_input(const Waiter&) override { return {}; }
  bool has_ended() const override { return has_ended_; }
  int exit_status() const override { return exit_status_; }
  Failure release(std::string_view, std::function<void(const std::string&)>, const Waiter&, base::UniqueFd&) override {
    return {};
  }

  std::string received;

 private:
  std::deque<Turn> turns_;
  int exit_status_;
  bool has_ended_ = false;
};

class PackedSendTest : public ::testing::Test {
 protected:
  PackedSendTest() {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    folder_.write("agent", {reinterpret_cast<const char*>(&header), sizeof header});
    folder_.write("agent.zst", "compressed agent");
    folder_.write("muster-unpack", "unpacker");
  }
  Failure send(PlayedHost& host) {
    const auto image = AgentImage::open(folder_ / "agent");
    EXPECT_TRUE(image.ok()) << image.status();
    const Waiter waiter{-1, std::chrono::steady_clock::now() + std::chrono::seconds(20)};
    const PackedSendOptions options{.host_address = "10.0.0.1",
                                    .on_send = [this] { ++announced_; },
                                    .on_note = [this](const std::string& line) { notes_.push_back(line); }};
    return send_packed(host, *image, board_, options, waiter, sent_);
  }

  testing_support::TempDir folder_;
  SeedBoard board_;
  PackedSend sent_;
  int announced_ = 0;
  std::vector<std::string> notes_;
};

TEST(StepWords, AreFoundAtTheEndOfANoisyLine) {
  EXPECT_EQ(step_words("MUSTER-STEP send Linux x86_64"), "send Linux x86_64");
  EXPECT_EQ(step_words("no newline MUSTER-STEP source\r"), "source");
  EXPECT_EQ(step_words("Welcome to n1"), "");
  EXPECT_EQ(step_words("MUSTER-STEP "), "");
}

TEST_F(PackedSendTest, SendsEachPartWhenTheHostIsReady) {
  const std::size_t line_size = std::string("unpack ").size() + 64 + std::string(" 64 16\n").size();
  PlayedHost host({{"Welcome!\n\nMUSTER-STEP se"},
                   {"nd Linux x86_64\n"},
                   {"MUSTER-STEP source\n", "", 8},
                   {"MUSTER-STEP stored\n", "", 8 + line_size + 16}});
  const Failure failure = send(host);
  EXPECT_TRUE(failure.ok()) << failure.detail << failure.errors;
  EXPECT_TRUE(sent_.is_stored);
  EXPECT_EQ(announced_, 1);
  EXPECT_EQ(sent_.system, "Linux x86_64");
  EXPECT_EQ(host.received.substr(0, 15), "unpackerunpack ");
  EXPECT_THAT(host.received, ::testing::EndsWith(" 64 16\ncompressed agent"));
}

TEST_F(PackedSendTest, TheFirstOfManyHostsServesTheOthers) {
  board_.expect(9);
  for (int i = 0; i < 3; ++i) {  // as many seeds as nine hosts have
    PlayedHost host(
        {{"MUSTER-STEP send Linux x86_64\n"}, {"MUSTER-STEP source\n", "", 8}, {"MUSTER-STEP stored 4242\n", "", 167}});
    ASSERT_TRUE(send(host).ok());
    EXPECT_THAT(host.received, HasSubstr(" 64 16 " + board_.token() + "\n"));
  }
  PlayedHost other(
      {{"MUSTER-STEP send Linux x86_64\n"}, {"MUSTER-STEP source\n", "", 8}, {"MUSTER-STEP stored\n", "", 160}});
  ASSERT_TRUE(send(other).ok());
  EXPECT_THAT(other.received, HasSubstr("unpackerfetch "));
  EXPECT_THAT(other.received, HasSubstr(" 64 " + board_.token() + " 10.0.0.1 4242\n"));
  EXPECT_TRUE(notes_.empty());
}

TEST_F(PackedSendTest, AfterASeedThatFailsTheLauncherSendsTheAgent) {
  board_.expect(9);
  for (int i = 0; i < 3; ++i)
    board_.succeed(board_.choose(true, {-1, base::MonotonicTime::max()}), SeedBoard::Seed{"10.0.0.2", 4242});
  PlayedHost host({{"MUSTER-STEP send Linux x86_64\n"},
                   {"MUSTER-STEP source\n", "", 8},
                   {"MUSTER-STEP source no connection within 2000 ms\n", "", 160},
                   {"MUSTER-STEP stored\n", "", 255}});
  ASSERT_TRUE(send(host).ok());
  EXPECT_THAT(host.received, ::testing::EndsWith(" 64 16\ncompressed agent"));
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0],
            "fetching the agent from 10.0.0.2 port 4242 failed (no connection within 2000 ms), sending it from here");
}

TEST_F(PackedSendTest, SendsNothingToAHostThatSharesTheFileSystem) {
  PlayedHost host({{"MUSTER-STEP shared\n"}});
  EXPECT_TRUE(send(host).ok());
  EXPECT_TRUE(sent_.is_shared);
  EXPECT_EQ(host.received, "");
  EXPECT_EQ(announced_, 0);
}

TEST_F(PackedSendTest, SendsNothingToAnotherMachine) {
  PlayedHost host({{"MUSTER-STEP send Linux aarch64\n"}});
  const Failure failure = send(host);
  EXPECT_EQ(failure.kind, FailureKind::kWrongArch);
  EXPECT_EQ(failure.detail, "this agent runs on Linux x86_64, but the host runs Linux aarch64");
  EXPECT_EQ(host.received, "");
}

TEST_F(PackedSendTest, SaysWhyTheHostStopped) {
  const struct {
    std::deque<PlayedHost::Turn> turns;
    int exit_status;
    FailureKind kind;
  } kCases[] = {
      {{{"", "mkdir: cannot create directory: Permission denied\n"}}, 1, FailureKind::kNoWrite},
      {{{"", "/bin/sh: 1: cannot create x: Read-only file system\n"}}, 1, FailureKind::kReadOnly},
      {{{"MUSTER-STEP send Linux x86_64\n"}, {"", "head: write error: No space left on device\n"}},
       1,
       FailureKind::kNoSpace},
      {{{"MUSTER-STEP send Linux x86_64\n"}, {"", "/bin/sh: 1: exec: x: Permission denied\n"}},
       126,
       FailureKind::kNoExec},
      {{{"MUSTER-STEP send Linux x86_64\n"},
        {"MUSTER-STEP source\n"},
        {"", "muster-unpack: cannot write the agent: No space left on device\n"}},
       1,
       FailureKind::kNoSpace},
      {{{"MUSTER-STEP send Linux x86_64\n"},
        {"MUSTER-STEP source\n"},
        {"", "muster-unpack: the agent has the hash a instead of b\n"}},
       1,
       FailureKind::kNoWrite},
      {{{"", "head: invalid option -- 'c'\n"}}, 1, FailureKind::kNoWrite},
      {{{"", "muster: unsafe folder: every user may write into /tmp/x\n"}}, 126, FailureKind::kUnsafeFolder},
  };
  for (const auto& [turns, exit_status, kind] : kCases) {
    PlayedHost host(turns, exit_status);
    EXPECT_EQ(failure_words(send(host).kind), failure_words(kind)) << turns.back().errors;
    EXPECT_FALSE(sent_.is_stored);
  }
}

TEST_F(PackedSendTest, AnImageWithoutPackedFormIsNotSent) {
  std::filesystem::remove(folder_ / "agent.zst");
  const auto image = AgentImage::open(folder_ / "agent");
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->unpacker_size(), 0U);
  EXPECT_EQ(image->load_packed().status().code(), base::Code::kNotFound);
}

}  // namespace
}  // namespace muster::launcherd::packed_send_test
