#include "collectives/join/alone.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/file.h"
#include "base/ids.h"
#include "collectives/join/alone_file.h"
#include "collectives/transport/handshake.h"

namespace muster::collectives::alone_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kDeadline{20'000};

base::Result<std::optional<AloneSettings>> settings_of(
    std::initializer_list<std::pair<const char*, const char*>> variables) {
  base::Environment environment;
  for (const auto& [name, value] : variables) environment.set(name, value);
  return read_alone_settings(environment);
}

TEST(AloneSettingsTest, WithoutARendezvousThereIsNothing) {
  EXPECT_FALSE(settings_of({{"MUSTER_RANK", "1"}}).value().has_value());
}

TEST(AloneSettingsTest, ReadsBothKinds) {
  const auto tcp = settings_of({{"MUSTER_RENDEZVOUS", "tcp://n1:4711"},
                                {"MUSTER_RANK", "3"},
                                {"MUSTER_SIZE", "4"},
                                {"MUSTER_SECRET_FILE", "/s"}});
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ((*tcp)->host, "n1");
  EXPECT_EQ((*tcp)->port, 4711);
  EXPECT_EQ((*tcp)->rank, 3);
  EXPECT_EQ((*tcp)->size, 4);
  const auto v6 = settings_of({{"MUSTER_RENDEZVOUS", "tcp://[::1]:1"},
                               {"MUSTER_RANK", "0"},
                               {"MUSTER_SIZE", "1"},
                               {"MUSTER_SECRET_FILE", "/s"}});
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ((*v6)->host, "::1");
  const auto file = settings_of({{"MUSTER_RENDEZVOUS", "file:///a/b//"}, {"MUSTER_RANK", "0"}, {"MUSTER_SIZE", "2"}});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->host, "");
  EXPECT_EQ((*file)->directory, "/a/b");
}

TEST(AloneSettingsTest, NamesWhatIsWrong) {
  for (const char* const text : {"n1:4711", "tcp://n1", "tcp://:1", "tcp://n1:0", "tcp://n1:65536", "file://relative",
                                 "http://n1:1", "tcp://n1:1x"}) {
    const auto settings = settings_of({{"MUSTER_RENDEZVOUS", text}, {"MUSTER_RANK", "0"}, {"MUSTER_SIZE", "1"}});
    EXPECT_THAT(settings.status().message(), HasSubstr("MUSTER_RENDEZVOUS must be tcp://HOST:PORT")) << text;
  }
  EXPECT_THAT(settings_of({{"MUSTER_RENDEZVOUS", "file:///d"}, {"MUSTER_RANK", "0"}}).status().message(),
              HasSubstr("MUSTER_SIZE must be a number"));
  EXPECT_THAT(
      settings_of({{"MUSTER_RENDEZVOUS", "file:///d"}, {"MUSTER_RANK", "x"}, {"MUSTER_SIZE", "1"}}).status().message(),
      HasSubstr("MUSTER_RANK must be a number from 0 to 1000000, but it is x"));
  EXPECT_THAT(
      settings_of({{"MUSTER_RENDEZVOUS", "file:///d"}, {"MUSTER_RANK", "2"}, {"MUSTER_SIZE", "2"}}).status().message(),
      HasSubstr("MUSTER_RANK is 2, but MUSTER_SIZE is 2"));
  EXPECT_THAT(
      settings_of({{"MUSTER_RENDEZVOUS", "tcp://n:1"}, {"MUSTER_RANK", "0"}, {"MUSTER_SIZE", "2"}}).status().message(),
      HasSubstr("needs MUSTER_SECRET_FILE"));
}

TEST(AlonePlaceTest, ComesBackAsItWasWritten) {
  AlonePlace place;
  for (int i = 0; i < 32; ++i) place.secret.push_back(static_cast<char>(i * 8));
  place.port = 65535;
  place.addresses = {base::IpAddress::parse("10.0.0.1").value(), base::IpAddress::parse("fd00::2").value()};
  const auto back = decode_place(encode_place(place));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->secret, place.secret);
  EXPECT_EQ(back->port, 65535);
  EXPECT_EQ(back->addresses, place.addresses);
}

TEST(AlonePlaceTest, RefusesAnythingElse) {
  AlonePlace place{std::string(32, 's'), {base::IpAddress::parse("10.0.0.1").value()}, 80};
  const std::string good = encode_place(place);
  ASSERT_TRUE(decode_place(good).ok());
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode_place(good.substr(0, size)).ok()) << size;
  EXPECT_FALSE(decode_place(good + "more\n").ok());
  EXPECT_FALSE(decode_place(good + "address n1\n").ok());
  std::string many = good;
  for (int i = 0; i < 64; ++i) many += "address 10.0.0.1\n";
  EXPECT_FALSE(decode_place(many).ok());
  place.port = 0;
  EXPECT_FALSE(decode_place(encode_place(place)).ok());
}

// Answers handshakes at rank 0's socket, one after the other, until it is told to stop.
class Answering {
 public:
  Answering(int listening, std::string secret)
      : listening_(listening), secret_(std::move(secret)), thread_([this] { serve(); }) {}
  ~Answering() {
    is_over_ = true;
    thread_.join();
  }
  int welcomed() const { return welcomed_; }

 private:
  void serve() {
    while (!is_over_) {
      pollfd slot{listening_, POLLIN, 0};
      if (::poll(&slot, 1, 10) <= 0) continue;
      base::UniqueFd fd(::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd.valid()) answer(std::move(fd));
    }
  }
  void answer(base::UniqueFd fd) {
    Handshake handshake = Handshake::answer(std::move(fd), secret_, 0);
    for (;;) {
      const auto turn = handshake.step();
      if (!turn.ok()) return;
      if (*turn == Handshake::Turn::kDone) break;
      pollfd slot{handshake.fd(), static_cast<short>(*turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT), 0};
      ::poll(&slot, 1, 1000);
    }
    if (handshake.request().purpose == LinkRequest::Purpose::kSession) ++welcomed_;
    sessions_.push_back(handshake.take_socket());
  }

  const int listening_;
  const std::string secret_;
  std::atomic<bool> is_over_ = false;
  std::atomic<int> welcomed_ = 0;
  std::vector<base::UniqueFd> sessions_;
  std::thread thread_;
};

class AloneTest : public ::testing::Test {
 protected:
  AloneTest() : root_(std::filesystem::temp_directory_path() / ("muster-alone-" + base::random_hex(6))) {
    std::filesystem::create_directory(root_);
  }
  ~AloneTest() override { std::filesystem::remove_all(root_); }

  AloneSettings by_directory(int rank) const {
    AloneSettings settings;
    settings.rank = rank;
    settings.size = 4;
    settings.directory = (root_ / "shared").string();
    return settings;
  }
  AloneSettings by_port(int rank, std::uint16_t port) const {
    AloneSettings settings;
    settings.rank = rank;
    settings.size = 4;
    settings.host = "127.0.0.1";
    settings.port = port;
    settings.secret_file = (root_ / "secret").string();
    return settings;
  }
  void write(const std::filesystem::path& path, const std::string& text, mode_t mode) const {
    std::ofstream(path) << text;
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  void write_secret(const std::string& text = std::string(64, 'a') + "\n", mode_t mode = 0600) const {
    write(root_ / "secret", text, mode);
  }
  // The file of an earlier start, whose rank 0 listened at `port`.
  void leave_stale(std::uint16_t port) const {
    ASSERT_TRUE(base::make_private_directory(by_directory(0).directory).ok());
    const AlonePlace stale{std::string(32, 'o'), {base::IpAddress::parse("127.0.0.1").value()}, port};
    ASSERT_TRUE(base::write_file_atomically(place_path(by_directory(0).directory), encode_place(stale)).ok());
  }

  const std::filesystem::path root_;
};

TEST_F(AloneTest, RanksFindRankZeroInADirectoryWhoeverComesFirst) {
  auto early =
      std::async(std::launch::async, [&] { return join_alone(by_directory(1), reach_session_host(1), kDeadline); });
  auto host = open_alone(by_directory(0));
  ASSERT_TRUE(host.ok()) << host.status();
  const Answering answering(host->listening.get(), host->place.secret);
  const auto first = early.get();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->place.secret, host->place.secret);
  EXPECT_TRUE(join_alone(by_directory(2), reach_session_host(2), kDeadline).ok());
  EXPECT_EQ(answering.welcomed(), 2);
  struct stat about {};
  ASSERT_EQ(::stat(place_path(by_directory(0).directory).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600U);
  ASSERT_EQ(::stat(by_directory(0).directory.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700U);
}

TEST_F(AloneTest, WhatAnEarlierStartHasLeftIsNotBelieved) {
  auto other = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 16);
  ASSERT_TRUE(other.ok());
  const Answering stranger(other->get(), std::string(32, 'x'));  // has got the port since
  leave_stale(base::local_port(other->get()).value());
  auto early =
      std::async(std::launch::async, [&] { return join_alone(by_directory(1), reach_session_host(1), kDeadline); });
  auto host = open_alone(by_directory(0));
  ASSERT_TRUE(host.ok()) << host.status();
  const Answering answering(host->listening.get(), host->place.secret);
  const auto guest = early.get();
  ASSERT_TRUE(guest.ok()) << guest.status();
  EXPECT_EQ(guest->place.secret, host->place.secret);
  EXPECT_EQ(stranger.welcomed(), 0);
}

TEST_F(AloneTest, TheDeadlineSaysWhatWasMissing) {
  const auto nobody = join_alone(by_directory(3), reach_session_host(3), milliseconds(300));
  EXPECT_EQ(nobody.status().code(), base::Code::kDeadlineExceeded);
  EXPECT_THAT(nobody.status().message(), HasSubstr("rank 3 did not find rank 0 through " + by_directory(0).directory));
  EXPECT_THAT(nobody.status().message(), HasSubstr("muster.session: No such file"));
  std::uint16_t free_port = 0;
  {
    const auto closed = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 16);
    free_port = base::local_port(closed->get()).value();
  }
  leave_stale(free_port);
  EXPECT_THAT(join_alone(by_directory(3), reach_session_host(3), milliseconds(300)).status().message(),
              HasSubstr("Connection refused"));
  write_secret();
  EXPECT_THAT(join_alone(by_port(3, free_port), reach_session_host(3), milliseconds(300)).status().message(),
              HasSubstr("Connection refused"));
}

TEST_F(AloneTest, RankZeroTakesBackOnlyWhatItHasPublished) {
  const std::string path = place_path(by_directory(0).directory);
  {
    const auto first = open_alone(by_directory(0));
    ASSERT_TRUE(first.ok());
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  auto first = open_alone(by_directory(0));
  const auto second = open_alone(by_directory(0));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->place.secret, second->place.secret);
  first = base::error(base::Code::kCancelled, "gone");
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(AloneTest, ByPortBothNeedTheSameSecret) {
  write_secret();
  std::uint16_t port = 0;
  {
    const auto any = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 16);
    port = base::local_port(any->get()).value();
  }
  auto early =
      std::async(std::launch::async, [&] { return join_alone(by_port(1, port), reach_session_host(1), kDeadline); });
  auto host = open_alone(by_port(0, port));
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(host->place.secret, std::string(32, '\xaa'));
  const Answering answering(host->listening.get(), host->place.secret);
  EXPECT_TRUE(early.get().ok());
  write_secret(std::string(64, 'b'));
  const auto stranger = join_alone(by_port(2, port), reach_session_host(2), kDeadline);
  EXPECT_EQ(stranger.status().code(), base::Code::kUnauthenticated);
  EXPECT_THAT(stranger.status().message(), HasSubstr("is MUSTER_SECRET_FILE the same for all ranks?"));
  EXPECT_EQ(answering.welcomed(), 1);
  EXPECT_THAT(open_alone(by_port(0, port)).status().message(), HasSubstr("Address already in use"));
}

TEST_F(AloneTest, ByNameRankZeroKnowsItsAddresses) {
  write_secret();
  AloneSettings settings = by_port(0, base::port_to_keep());
  settings.host = "localhost";
  const auto host = open_alone(settings);
  ASSERT_TRUE(host.ok()) << host.status();
  const auto interfaces = base::interface_addresses();
  ASSERT_TRUE(interfaces.ok() && !interfaces->empty());
  ASSERT_EQ(host->place.addresses.size(), interfaces->size());
  EXPECT_EQ(host->place.addresses.front(), interfaces->front().address);
}

TEST_F(AloneTest, LoopbackIsNoAddressForOthersUnlessItIsNamed) {
  const auto listening = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 16).value();
  const base::SockAddr to =
      base::make_sockaddr(base::IpAddress::parse("127.0.0.1").value(), base::local_port(listening.get()).value());
  const base::UniqueFd session(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(session.get(), to.get(), to.size), 0);
  AloneSettings settings = by_port(1, 1);
  EXPECT_EQ(address_for_others(settings, session.get())->str(), "127.0.0.1");
  settings.host = "localhost";
  EXPECT_EQ(*address_for_others(settings, session.get()), base::interface_addresses()->front().address);
}

TEST_F(AloneTest, ASecretThatOthersCouldReadIsRefused) {
  const std::string path = (root_ / "secret").string();
  EXPECT_EQ(read_secret_file(path).status().code(), base::Code::kNotFound);
  write_secret(std::string(64, 'a'), 0640);
  EXPECT_EQ(read_secret_file(path).status().code(), base::Code::kPermissionDenied);
  EXPECT_THAT(open_alone(by_port(0, 1)).status().message(), HasSubstr("chmod 600"));
  EXPECT_EQ(join_alone(by_port(1, 1), reach_session_host(1), kDeadline).status().code(), base::Code::kPermissionDenied);
  write_secret("too short");
  EXPECT_THAT(read_secret_file(path).status().message(), HasSubstr("openssl rand -hex 32"));
  write_secret(std::string(63, 'a') + "g");
  EXPECT_EQ(read_secret_file(path).status().code(), base::Code::kInvalidArgument);
  write_secret(std::string(20 << 10, 'a'));
  EXPECT_EQ(read_secret_file(path).status().code(), base::Code::kResourceExhausted);
  write_secret();
  EXPECT_TRUE(read_secret_file(path).ok());
  std::filesystem::create_symlink(path, root_ / "link");
  EXPECT_EQ(read_secret_file((root_ / "link").string()).status().code(), base::Code::kPermissionDenied);
  EXPECT_EQ(read_secret_file(root_.string()).status().code(), base::Code::kPermissionDenied);
}

TEST_F(AloneTest, WhatBelongsToAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  write_secret();
  ASSERT_EQ(::chown((root_ / "secret").c_str(), 65534, 65534), 0);
  EXPECT_THAT(read_secret_file((root_ / "secret").string()).status().message(), HasSubstr("belongs to uid 65534"));
  std::filesystem::create_directory(root_ / "shared");
  ASSERT_EQ(::chmod((root_ / "shared").c_str(), 0700), 0);
  ASSERT_EQ(::chown((root_ / "shared").c_str(), 65534, 65534), 0);
  EXPECT_EQ(open_alone(by_directory(0)).status().code(), base::Code::kPermissionDenied);
  EXPECT_EQ(join_alone(by_directory(1), reach_session_host(1), kDeadline).status().code(),
            base::Code::kPermissionDenied);
}

TEST_F(AloneTest, AnOpenDirectoryIsRefused) {
  std::filesystem::create_directory(root_ / "shared");
  ASSERT_EQ(::chmod((root_ / "shared").c_str(), 0755), 0);
  EXPECT_EQ(open_alone(by_directory(0)).status().code(), base::Code::kPermissionDenied);
}

}  // namespace
}  // namespace muster::collectives::alone_test
