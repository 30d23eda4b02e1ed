// Tests the launcher's side of agents that enrol by a join file's key: real TLS connections on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>

#include "base/ids.h"
#include "base/net.h"
#include "base/tls.h"
#include "launcherd/enrol/enrolment_server.h"
#include "launcherd/enrol/enrolment_wave.h"
#include "proto/enrolment.h"

namespace muster::launcherd::enrolment_test {
namespace {

using ::testing::HasSubstr;

const std::string kBuild = "0123abcd";
const std::string kIdentity = "muster-join-test";

base::MonotonicTime soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

base::UniqueFd connect_to(std::uint16_t port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), port);
  EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
  return fd;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[256];
  for (ssize_t count = ::read(fd, buffer, sizeof buffer); count > 0; count = ::read(fd, buffer, sizeof buffer)) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

// Collects the server's lines about unproven peers and refused agents.
class Said {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    text_ += line + "\n";
    changed_.notify_all();
  }
  void wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, soon(), [&] { return text_.find(part) != std::string::npos; }))
        << part << " is not in: " << text_;
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

class EnrolmentTest : public ::testing::Test {
 protected:
  void start(std::vector<std::string> hosts, std::size_t max_unproven = 512,
             std::chrono::milliseconds proof_time = std::chrono::seconds(20)) {
    EnrolmentOptions options;
    options.build_id = kBuild;
    options.max_unproven = max_unproven;
    options.proof_time = proof_time;
    options.on_note = [this](const std::string& line) { notes.add(line); };
    options.on_refused = [this](const std::string& line) { refused.add(line); };
    auto started = EnrolmentServer::start(pump, std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    server = std::move(*started);
    auto made = EnrolmentWave::make(std::move(hosts));
    ASSERT_TRUE(made.ok()) << made.status();
    wave = *made;
    const base::Status opened =
        server->open(kIdentity, token, wave, [this](const std::string& host) { enrolled.add(host); });
    ASSERT_TRUE(opened.ok()) << opened;
  }

  base::TlsStream stream(const std::string& secret) const {
    auto context = base::TlsContext::client({kIdentity, secret});
    EXPECT_TRUE(context.ok()) << context.status();
    return {*context, connect_to(server->port())};
  }

  base::Result<proto::EnrolmentAnswer> introduce(base::TlsStream& connection,
                                                 const proto::EnrolmentHello& hello) const {
    MUSTER_RETURN_IF_ERROR(connection.handshake_blocking(soon(), -1));
    const std::string message = proto::encode_hello(hello);
    MUSTER_RETURN_IF_ERROR(connection.write_all_blocking(message.data(), message.size(), soon(), -1));
    std::string header(proto::kEnrolmentHeader, '\0');
    MUSTER_RETURN_IF_ERROR(connection.read_exactly_blocking(header.data(), header.size(), soon(), -1));
    MUSTER_ASSIGN_OR_RETURN(const std::size_t size, proto::enrolment_size(header));
    std::string text(size, '\0');
    MUSTER_RETURN_IF_ERROR(connection.read_exactly_blocking(text.data(), size, soon(), -1));
    return proto::decode_answer(text);
  }

  std::string refusal(const proto::EnrolmentHello& hello) const {
    base::TlsStream connection = stream(token);
    const auto answer = introduce(connection, hello);
    if (!answer.ok()) return "no answer: " + answer.status().message();
    EXPECT_FALSE(answer->is_taken);
    return answer->text;
  }

  const std::string token = base::random_hex(32);
  Said notes;
  Said refused;
  Said enrolled;
  Pump pump;
  std::unique_ptr<EnrolmentServer> server;
  std::shared_ptr<EnrolmentWave> wave;
};

TEST_F(EnrolmentTest, AProvenAgentIsItsHostsStreamBothWays) {
  start({"n1", "n2"});
  const base::UniqueFd ours = wave->take_stream(1);
  base::TlsStream agent = stream(token);
  const auto answer = introduce(agent, {kBuild, {"N2.site"}, 0, "a1"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->is_taken);
  EXPECT_EQ(answer->text, "n2");
  enrolled.wait_for("n2");
  EXPECT_FALSE(wave->is_complete());
  ASSERT_TRUE(wave->ends(1).host && wave->ends(1).launcher);
  EXPECT_EQ(wave->ends(1).host->str(), "127.0.0.1");

  ASSERT_TRUE(agent.write_all_blocking("from the agent", 14, soon(), -1).ok());
  std::string text(14, '\0');
  ASSERT_TRUE(base::read_exactly_blocking(ours.get(), text.data(), 14).ok());
  EXPECT_EQ(text, "from the agent");
  ASSERT_TRUE(base::write_all_blocking(ours.get(), "from us", 7).ok());
  ::shutdown(ours.get(), SHUT_WR);
  std::string back(7, '\0');
  ASSERT_TRUE(agent.read_exactly_blocking(back.data(), 7, soon(), -1).ok());
  EXPECT_EQ(back, "from us");
  // The agent's stdin has ended, but its output still arrives.
  EXPECT_EQ(agent.read_exactly_blocking(back.data(), 1, soon(), -1).code(), base::Code::kUnavailable);
  ASSERT_TRUE(agent.write_all_blocking("last", 4, soon(), -1).ok());
  agent.close_notify();
  EXPECT_EQ(read_all(ours.get()), "last");
  EXPECT_EQ(notes.text() + refused.text(), "");
}

TEST_F(EnrolmentTest, MuchIsCarriedWhole) {
  start({"n1"});
  const base::UniqueFd ours = wave->take_stream(0);
  base::TlsStream agent = stream(token);
  ASSERT_TRUE(introduce(agent, {kBuild, {"n1"}, 0, "a1"}).ok());
  const std::string much(8'000'000, 'm');
  std::string came;
  std::thread reader([&] { came = read_all(ours.get()); });
  EXPECT_TRUE(agent.write_all_blocking(much.data(), much.size(), soon(), -1).ok());
  agent.close_notify();
  reader.join();
  EXPECT_TRUE(came == much) << came.size();
}

TEST_F(EnrolmentTest, AConnectionThatIsCutEndsTheStream) {
  start({"n1"});
  const base::UniqueFd ours = wave->take_stream(0);
  {
    base::TlsStream agent = stream(token);
    ASSERT_TRUE(introduce(agent, {kBuild, {"n1"}, 0, "a1"}).ok());
  }
  EXPECT_EQ(read_all(ours.get()), "");
}

TEST_F(EnrolmentTest, TheWrongTokenGetsNoWord) {
  start({"n1"});
  base::TlsStream stranger = stream(base::random_hex(32));
  EXPECT_FALSE(introduce(stranger, {kBuild, {"n1"}, 0, "a1"}).ok());
  notes.wait_for("connection from 127.0.0.1");
  EXPECT_EQ(refused.text(), "");
  base::TlsStream agent = stream(token);
  const auto answer = introduce(agent, {kBuild, {"n1"}, 0, "a1"});
  EXPECT_TRUE(answer.ok() && answer->is_taken);
}

TEST_F(EnrolmentTest, AClosedKeyOpensNothing) {
  start({"n1"});
  server->close(kIdentity);
  base::TlsStream late = stream(token);
  EXPECT_FALSE(introduce(late, {kBuild, {"n1"}, 0, "a1"}).ok());
}

TEST_F(EnrolmentTest, WhoKnowsTheKeyAndFitsNobodyIsToldWhy) {
  start({"n1", "n2"});
  EXPECT_THAT(refusal({kBuild, {"n3", "login"}, 0, "a1"}),
              HasSubstr("names its host n3, login, but the launcher waits for other hosts (n1, n2)"));
  EXPECT_THAT(refusal({"ffff", {"n1"}, 0, "a1"}), HasSubstr("from another build (ffff, not 0123abcd)"));
  base::TlsStream first = stream(token);
  ASSERT_TRUE(introduce(first, {kBuild, {"n1"}, 0, "a1"}).ok());
  EXPECT_THAT(refusal({kBuild, {"n1"}, 0, "a1"}), HasSubstr("refused a second agent of host n1"));
  wave->give_up({1}, "too long");
  EXPECT_THAT(refusal({kBuild, {"n2"}, 0, "a1"}), HasSubstr("the agent of host n2 connected too late"));
  refused.wait_for("too late");
}

TEST_F(EnrolmentTest, JunkAndSilenceCostNothing) {
  start({"n1"}, 512, std::chrono::milliseconds(300));
  const base::UniqueFd silent = connect_to(server->port());
  const base::UniqueFd junk = connect_to(server->port());
  const std::string text(100'000, 'x');
  (void)::send(junk.get(), text.data(), text.size(), MSG_NOSIGNAL);  // it may be closed by now
  EXPECT_EQ(read_all(silent.get()), "");
  notes.wait_for("did not prove in time");
  base::TlsStream mute = stream(token);  // has the key, but announces an impossible size
  ASSERT_TRUE(mute.handshake_blocking(soon(), -1).ok());
  ASSERT_TRUE(mute.write_all_blocking("\xff\xff\xff\xff", 4, soon(), -1).ok());
  char byte = 0;
  EXPECT_FALSE(mute.read_exactly_blocking(&byte, 1, soon(), -1).ok());
  notes.wait_for("not an enrolment message");
  EXPECT_FALSE(wave->is_complete());
}

TEST_F(EnrolmentTest, TheOldestOfTooManyNewcomersGoes) {
  start({"n1"}, 2);
  const base::UniqueFd first = connect_to(server->port());
  const base::UniqueFd second = connect_to(server->port());
  const base::UniqueFd third = connect_to(server->port());
  EXPECT_EQ(read_all(first.get()), "");
  base::TlsStream agent = stream(token);
  const auto answer = introduce(agent, {kBuild, {"n1"}, 0, "a1"});
  EXPECT_TRUE(answer.ok() && answer->is_taken) << answer.status();
}

TEST(MatchHostTest, ByNameThenShortNameThenAddress) {
  const std::vector<std::string> hosts = {"n1.a.site", "n2", "n1.b.site", "10.0.0.7", "X3"};
  const auto peer = *base::IpAddress::parse("10.0.0.7");
  EXPECT_EQ(match_host(hosts, {"n1.b.site", "n1"}, std::nullopt), 2u);
  EXPECT_EQ(match_host(hosts, {"n1"}, std::nullopt), std::nullopt);  // nullopt, because two hosts match
  EXPECT_EQ(match_host(hosts, {"n2.any.site"}, std::nullopt), 1u);
  EXPECT_EQ(match_host(hosts, {"x3"}, std::nullopt), 4u);
  EXPECT_EQ(match_host(hosts, {"other", "n2"}, std::nullopt), 1u);
  EXPECT_EQ(match_host(hosts, {"other"}, peer), 3u);
  EXPECT_EQ(match_host(hosts, {"other"}, *base::IpAddress::parse("10.0.0.8")), std::nullopt);
  EXPECT_EQ(match_host({"10.0.0.7", "10.1.1.1"}, {"10.9.9.9"}, std::nullopt), std::nullopt);
}

TEST(EnrolmentWaveTest, ASeatThatStaysEmptyEndsItsStreamAndSaysWhy) {
  const auto wave = EnrolmentWave::make({"n1", "n2"});
  ASSERT_TRUE(wave.ok()) << wave.status();
  const base::UniqueFd stream = (*wave)->take_stream(0);
  EXPECT_FALSE((*wave)->are_given_up({0, 1}));
  (*wave)->give_up_all("srun failed");
  EXPECT_TRUE((*wave)->is_complete());
  EXPECT_TRUE((*wave)->are_given_up({0, 1}));
  EXPECT_FALSE((*wave)->is_any_occupied({0, 1}));
  EXPECT_EQ(read_all(stream.get()), "");
  EXPECT_EQ((*wave)->reason(0), "srun failed");
}

TEST(EnrolmentWaveTest, ASeatThatIsGivenBackMayBeTakenAnew) {
  const auto wave = EnrolmentWave::make({"n1"});
  ASSERT_TRUE(wave.ok()) << wave.status();
  auto seat = (*wave)->assign_seat({"n1"}, {});
  ASSERT_TRUE(seat.ok()) << seat.status();
  EXPECT_TRUE((*wave)->is_any_occupied({0}));
  EXPECT_FALSE((*wave)->assign_seat({"n1"}, {}).ok());
  (*wave)->release(*std::move(seat));
  EXPECT_FALSE((*wave)->is_complete());
  EXPECT_TRUE((*wave)->assign_seat({"n1"}, {}).ok());
}

}  // namespace
}  // namespace muster::launcherd::enrolment_test
