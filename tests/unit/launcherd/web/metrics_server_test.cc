// Tests the port of --metrics over real sockets. tests/daemon/test_metrics.py has TLS and a real Prometheus.
#include "launcherd/web/metrics_server.h"

#include <unistd.h>

#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/launcherd/web/served_port.h"

namespace muster::launcherd::metrics_server_test {
namespace {

class Handler final : public ApiHandler {
 public:
  void get_capabilities(const v1::GetCapabilitiesRequest&, Reply<v1::Capabilities> reply) override {
    reply(v1::Capabilities());
  }
  void list_hosts(const v1::ListHostsRequest&, Reply<v1::ListHostsResponse> reply) override {
    reply(v1::ListHostsResponse());
  }
  void list_jobs(const v1::ListJobsRequest&, Reply<v1::ListJobsResponse> reply) override {
    reply(v1::ListJobsResponse());
  }
};

class MetricsServerTest : public ::testing::Test {
 protected:
  MetricsServerTest() {
    std::promise<void> up;
    thread_ = std::thread([this, &up] {
      auto server = MetricsServer::start(loop_, {.address = "127.0.0.1:0", .certificate = "", .key = ""}, &handler_,
                                         "secret-token");
      EXPECT_TRUE(server.ok()) << server.status();
      url_ = (*server)->url();
      loop_.post([&up] { up.set_value(); });
      loop_.run();
    });
    up.get_future().wait();
  }
  ~MetricsServerTest() override {
    loop_.stop();
    thread_.join();
  }

  base::UniqueFd connected() const { return served_port::connected(url_); }
  // Returns the whole reply.
  std::string ask(const std::string& first, const std::string& token) const {
    const base::UniqueFd fd = connected();
    const std::string request = first + " HTTP/1.1\r\nHost: node1\r\nAuthorization: Bearer " + token + "\r\n\r\n";
    EXPECT_TRUE(base::write_all_blocking(fd.get(), request.data(), request.size()).ok());
    return served_port::rest_of(fd);
  }

  base::Loop loop_;
  Handler handler_;
  std::string url_;
  std::thread thread_;
};

TEST_F(MetricsServerTest, TheTokenOpensTheMetricsAndNothingElse) {
  EXPECT_TRUE(url_.starts_with("http://127.0.0.1:")) << url_;
  const std::string metrics = ask("GET /metrics", "secret-token");
  EXPECT_TRUE(metrics.starts_with("HTTP/1.1 200 ")) << metrics;
  EXPECT_NE(metrics.find("\nmuster_build_info{"), std::string::npos) << metrics;
  EXPECT_TRUE(ask("GET /metrics", "secret-tokem").starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(ask("GET /metrics", "").starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(ask("GET /api/v1/jobs", "secret-token").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(ask("POST /metrics", "secret-token").starts_with("HTTP/1.1 405 "));
}

TEST_F(MetricsServerTest, SilentPeersKeepNobodyOut) {
  std::vector<base::UniqueFd> silent;
  for (std::size_t i = 0; i < MetricsServer::kMostConnections + 1; ++i) silent.push_back(connected());
  EXPECT_TRUE(ask("GET /metrics", "secret-token").starts_with("HTTP/1.1 200 "));
  char byte = 0;
  EXPECT_EQ(::read(silent.front().get(), &byte, 1), 0);  // the oldest was closed
}

TEST(MetricsServerAddress, OtherMachinesNeedTls) {
  EXPECT_FALSE(MetricsServer::needs_tls("127.0.0.1:7481").value());
  EXPECT_FALSE(MetricsServer::needs_tls("localhost:7481").value());
  EXPECT_FALSE(MetricsServer::needs_tls("[::1]:7481").value());
  EXPECT_TRUE(MetricsServer::needs_tls("0.0.0.0:7481").value());
  EXPECT_TRUE(MetricsServer::needs_tls("node1:7481").value());
  EXPECT_TRUE(MetricsServer::needs_tls("[::]:0").value());
  for (const char* const wrong : {"7481", ":7481", "node1", "node1:x", "node1:70000", ""}) {
    EXPECT_EQ(MetricsServer::needs_tls(wrong).status().code(), base::Code::kInvalidArgument) << wrong;
  }
  base::Loop loop;
  const MetricsPort port{.address = "0.0.0.0:0", .certificate = "", .key = ""};
  EXPECT_EQ(MetricsServer::start(loop, port, nullptr, "x").status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::metrics_server_test
