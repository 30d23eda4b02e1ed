#include "launcherd/web/http_tls.h"

#include <gtest/gtest.h>

#include "tests/unit/support/certificate_authority.h"

namespace muster::launcherd::http_tls_test {
namespace {

TEST(HttpTls, TakesACertificateWithItsKeyOnly) {
  const auto authority = testing_support::CertificateAuthority::create().value();
  const auto own = authority.issue("launcherd", {"IP:127.0.0.1"}).value();
  const auto other = authority.issue("launcherd", {"IP:127.0.0.1"}).value();
  EXPECT_TRUE(HttpTls::make(own.cert_pem, own.key_pem).ok());
  EXPECT_EQ(HttpTls::make(own.cert_pem, other.key_pem).status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(HttpTls::make("x", own.key_pem).status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(HttpTls::make(own.cert_pem, "").status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::http_tls_test
