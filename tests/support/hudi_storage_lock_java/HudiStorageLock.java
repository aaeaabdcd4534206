import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.hudi.client.transaction.lock.StorageBasedLockProvider;
import org.apache.hudi.common.config.LockConfiguration;

/** Hudi's own lock provider behind a pipe: "take SECONDS" or "release" a line, an answer a line. */
public class HudiStorageLock {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    properties.setProperty("hoodie.base.path", arguments[0]);
    for (int index = 1; index < arguments.length; index++) {
      String[] pair = arguments[index].split("=", 2);
      properties.setProperty(pair[0], pair[1]);
    }
    StorageBasedLockProvider provider =
        new StorageBasedLockProvider(new LockConfiguration(properties), null);
    System.out.println("answer ready");
    Scanner lines = new Scanner(System.in);
    while (lines.hasNextLine()) {
      String[] words = lines.nextLine().split(" ");
      if (words[0].equals("take")) {
        boolean taken = provider.tryLock(Long.parseLong(words[1]), TimeUnit.SECONDS);
        System.out.println("answer " + taken);
      } else {
        provider.unlock();
        System.out.println("answer released");
      }
    }
    provider.close();
  }
}
