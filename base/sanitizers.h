// Whether this program is built with a sanitizer. g++ has macros for it, clang has features.
#pragma once

namespace muster::base {

#if defined(__has_feature)
#define MUSTER_HAS_FEATURE(name) __has_feature(name)
#else
#define MUSTER_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || MUSTER_HAS_FEATURE(address_sanitizer)
inline constexpr bool kIsAddressSanitized = true;
#else
inline constexpr bool kIsAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__) || MUSTER_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif

#undef MUSTER_HAS_FEATURE

inline constexpr bool kIsSanitized = kIsAddressSanitized || kIsThreadSanitized;

}  // namespace muster::base
