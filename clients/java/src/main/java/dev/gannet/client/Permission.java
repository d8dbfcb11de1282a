package dev.gannet.client;

import dev.gannet.v1.Permission.All;
import dev.gannet.v1.Permission.CacheSelector;
import dev.gannet.v1.Permission.Part;
import dev.gannet.v1.Permission.Scope;
import java.util.Optional;

/**
 * A permission of a signed token: a role, on one cache or all, on all keys or topics, one of them, or those with a
 * prefix. It is immutable; its methods return changed copies:
 *
 * <pre>{@code Permission.items(Permission.Role.READ_ONLY).inCache("shop").withPrefix(Bytes.of("user:"))}</pre>
 */
public final class Permission {
    /** What a token permits. */
    public enum Role {
        /** Reads and changes. */
        READ_WRITE,
        /** Reads alone. */
        READ_ONLY,
        /** Changes whose effect and reply do not depend on present values. */
        WRITE_ONLY
    }

    private final boolean isTopics;
    private final Role role;
    private final Optional<String> cache;
    private final Optional<Part> part;

    private Permission(boolean isTopics, Role role, Optional<String> cache, Optional<Part> part) {
        this.isTopics = isTopics;
        this.role = role;
        this.cache = cache;
        this.part = part;
    }

    /** Returns the permission on all keys of all caches. */
    public static Permission items(Role role) {
        return new Permission(false, role, Optional.empty(), Optional.empty());
    }

    /** Returns the permission on all topics of all caches. */
    public static Permission topics(Role role) {
        return new Permission(true, role, Optional.empty(), Optional.empty());
    }

    /** Returns a copy for this cache alone. */
    public Permission inCache(String name) {
        return new Permission(isTopics, role, Optional.of(name), part);
    }

    /** Returns a copy for this key or topic alone. */
    public Permission withName(Bytes name) {
        return new Permission(isTopics, role, cache, Optional.of(Part.newBuilder().setName(name.data()).build()));
    }

    /** Returns a copy for the keys or topics with this prefix. */
    public Permission withPrefix(Bytes prefix) {
        return new Permission(isTopics, role, cache, Optional.of(Part.newBuilder().setPrefix(prefix.data()).build()));
    }

    dev.gannet.v1.Permission message() {
        Scope.Builder scope = Scope.newBuilder().setRole(dev.gannet.v1.Permission.Role.valueOf(role.name()));
        cache.ifPresentOrElse(
                name -> scope.setOneCache(CacheSelector.newBuilder().setName(name)),
                () -> scope.setAllCaches(All.getDefaultInstance()));
        part.ifPresentOrElse(scope::setPart, () -> scope.setEverything(All.getDefaultInstance()));
        dev.gannet.v1.Permission.Builder message = dev.gannet.v1.Permission.newBuilder();
        return isTopics ? message.setTopics(scope).build() : message.setItems(scope).build();
    }
}
