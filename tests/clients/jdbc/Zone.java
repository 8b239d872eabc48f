// What a Java program in a time zone of its own sees of instants: stored with a prepared statement, read back, and their
// hours as the database has them. Arguments: the address, the user, the password. Prints one line per finding.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;

public class Zone {
    private static final long WINTER = 1700000000000L;
    private static final long SUMMER = 1720000000000L;

    public static void main(String[] arguments) throws SQLException {
        try (Connection connection = DriverManager.getConnection(arguments[0], arguments[1], arguments[2])) {
            make(connection);
            insert(connection);
            ask(connection);
        }
    }

    private static void make(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS jdbc_zone");
            statement.execute("CREATE TABLE jdbc_zone (ts TIMESTAMP TIME INDEX)");
        }
    }

    private static void insert(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc_zone (ts) VALUES (?)")) {
            for (long instant : new long[] {WINTER, SUMMER}) {
                insert.setTimestamp(1, new Timestamp(instant));
                insert.executeUpdate();
            }
        }
    }

    private static void ask(Connection connection) throws SQLException {
        String text = "SELECT ts, extract(hour FROM ts) AS h, CAST(extract(epoch FROM ts) AS BIGINT) AS e "
            + "FROM jdbc_zone WHERE ts <= ? ORDER BY ts";
        List<Long> read = new ArrayList<>();
        List<Integer> hours = new ArrayList<>();
        List<Long> stored = new ArrayList<>();
        try (PreparedStatement query = connection.prepareStatement(text)) {
            query.setTimestamp(1, new Timestamp(SUMMER));
            try (ResultSet found = query.executeQuery()) {
                while (found.next()) {
                    read.add(found.getTimestamp(1).getTime());
                    hours.add(found.getInt(2));
                    stored.add(found.getLong(3));
                }
            }
        }
        System.out.println("read: " + read);
        System.out.println("hours: " + hours);
        System.out.println("stored: " + stored);
    }
}
