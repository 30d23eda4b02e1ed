#include "launcherd/service/tls_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/file.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline service {
namespace {

using base::Code;
using BioPtr = std::unique_ptr<BIO, decltype(&::BIO_free_all)>;
using CertificatePtr = std::unique_ptr<X509, decltype(&::X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;

constexpr std::size_t kLongestKey = std::size_t{1} << 20;
constexpr mode_t kNotForOthers = S_IRWXO | S_IWGRP;
constexpr mode_t kNotForGroup = S_IRWXG;

BioPtr bio_of(const std::string& text) {
  return {::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &::BIO_free_all};
}

CertificatePtr certificate_of(const std::string& pem) {
  const BioPtr bio = bio_of(pem);
  return {::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &::X509_free};
}

// Never asks for a passphrase. Rejects a key that needs one.
KeyPtr key_of(const std::string& pem) {
  const BioPtr bio = bio_of(pem);
  char none[] = "";
  return {::PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, none), &::EVP_PKEY_free};
}

}  // namespace

base::Result<std::string> read_private_key(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return base::errno_error(errno, "read " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return base::errno_error(errno, "read " + path);
  const bool is_ours = info.st_uid == ::geteuid();
  const mode_t forbidden = is_ours && info.st_uid != 0 ? kNotForOthers | kNotForGroup : kNotForOthers;
  if (!is_ours && info.st_uid != 0) {
    return base::permission_denied("{} belongs to another user, who could change the key: chown it", path);
  }
  if ((info.st_mode & forbidden) != 0) {
    return base::permission_denied("{} is a private key that other users may read or write: run chmod 600 on it", path);
  }
  // Read the checked file itself, because another file may have its name by now.
  return base::read_file(fmt::format("/proc/self/fd/{}", fd.get()), kLongestKey);
}

base::Status check_tls_texts(const std::string& certificate, const std::string& key, const std::string& authority) {
  const CertificatePtr own = certificate_of(certificate);
  const KeyPtr own_key = key_of(key);
  const CertificatePtr root = certificate_of(authority);
  const bool belongs = own != nullptr && own_key != nullptr && ::X509_check_private_key(own.get(), own_key.get()) == 1;
  ::ERR_clear_error();
  if (own == nullptr) return {Code::kInvalidArgument, "the certificate is not in PEM format"};
  if (own_key == nullptr) return {Code::kInvalidArgument, "the key is not an unencrypted private key in PEM format"};
  if (!belongs) return {Code::kInvalidArgument, "the certificate and the key do not match"};
  if (root == nullptr) return {Code::kInvalidArgument, "the authority is not a certificate in PEM format"};
  return base::ok_status();
}

base::Result<base::WallTime> certificate_end(const std::string& certificate) {
  const CertificatePtr own = certificate_of(certificate);
  std::tm end{};
  const bool is_known = own != nullptr && ::ASN1_TIME_to_tm(::X509_get0_notAfter(own.get()), &end) == 1;
  ::ERR_clear_error();
  if (!is_known) return base::invalid_argument("the certificate is not in PEM format");
  return std::chrono::system_clock::from_time_t(::timegm(&end));
}

}  // namespace muster::launcherd::service
